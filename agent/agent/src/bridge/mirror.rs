//! What the BPF program is to know of the kernel bridge: which stations are behind which port.

use std::collections::{BTreeMap, BTreeSet};

/// Who is where: a MAC address, in a VLAN. The VLAN is 0 where the bridge does not distinguish VLANs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Station {
    /// MAC address.
    pub mac: [u8; 6],
    /// VLAN id.
    pub vid: u16,
}

/// A VLAN that a port is a member of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Membership {
    /// VLAN id.
    pub vid: u16,
    /// What comes in untagged is in it.
    pub pvid: bool,
    /// It leaves the port without a tag.
    pub untagged: bool,
}

/// A port, as the kernel bridge has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Port {
    /// Learns and forwards: neither blocked by the spanning tree nor down.
    pub forwarding: bool,
    /// Speaks only with ports that are not isolated.
    pub isolated: bool,
    /// Members only matter where the bridge distinguishes VLANs.
    pub vlans: Vec<Membership>,
}

impl Port {
    /// VLAN of what comes in untagged; 0: none.
    pub fn pvid(&self) -> u16 {
        self.vlans.iter().find(|vlan| vlan.pvid).map_or(0, |vlan| vlan.vid)
    }
}

/// What the program is told of a station.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The port it is behind.
    pub ifindex: u32,
    /// The port is isolated.
    pub isolated: bool,
    /// The station's VLAN leaves the port without a tag.
    pub untagged: bool,
}

/// A change of the program's table: the entry a station now has, or that it has none.
pub type Change = (Station, Option<Entry>);

/// The kernel bridge as it was last seen, and what the program has been told of it.
#[derive(Debug, Default)]
pub struct Mirror {
    filtering: bool,
    ports: BTreeMap<u32, Port>,
    stations: BTreeMap<Station, u32>,
    told: BTreeMap<Station, Entry>,
}

impl Mirror {
    /// The changes that follow from how the bridge and its ports are now.
    pub fn set_ports(&mut self, filtering: bool, ports: BTreeMap<u32, Port>) -> Vec<Change> {
        (self.filtering, self.ports) = (filtering, ports);
        let all: BTreeSet<Station> = self.stations.keys().chain(self.told.keys()).copied().collect();
        all.into_iter().filter_map(|station| self.tell(station)).collect()
    }

    /// The changes that follow from the whole table of the kernel bridge.
    pub fn set_stations(&mut self, stations: impl IntoIterator<Item = (Station, u32)>) -> Vec<Change> {
        self.stations = stations.into_iter().collect();
        let all: BTreeSet<Station> = self.stations.keys().chain(self.told.keys()).copied().collect();
        all.into_iter().filter_map(|station| self.tell(station)).collect()
    }

    /// The change that follows from where a station is now: behind which interface, or nowhere.
    pub fn set_station(&mut self, station: Station, ifindex: Option<u32>) -> Option<Change> {
        match ifindex {
            Some(ifindex) => self.stations.insert(station, ifindex),
            None => self.stations.remove(&station),
        };
        self.tell(station)
    }

    /// Where the program believes a station to be.
    pub fn told(&self, station: &Station) -> Option<Entry> {
        self.told.get(station).copied()
    }

    /// Stations the program knows.
    pub fn len(&self) -> usize {
        self.told.len()
    }

    fn tell(&mut self, station: Station) -> Option<Change> {
        let entry = self.entry(&station);
        let before = match entry {
            Some(entry) => self.told.insert(station, entry),
            None => self.told.remove(&station),
        };
        (before != entry).then_some((station, entry))
    }

    /// What the program may know of a station: nothing if it has to leave its frames to the bridge.
    fn entry(&self, station: &Station) -> Option<Entry> {
        let ifindex = *self.stations.get(station)?;
        let port = self.ports.get(&ifindex).filter(|port| port.forwarding)?;
        let untagged = if self.filtering {
            port.vlans.iter().find(|vlan| vlan.vid == station.vid)?.untagged
        } else if station.vid == 0 {
            false
        } else {
            return None;
        };
        Some(Entry { ifindex, isolated: port.isolated, untagged })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NIC: u32 = 2;
    const TAP: u32 = 3;

    fn station(last: u8, vid: u16) -> Station {
        Station { mac: [2, 0, 0, 0, 0, last], vid }
    }

    fn member(vid: u16, untagged: bool) -> Membership {
        Membership { vid, pvid: untagged, untagged }
    }

    fn ports(tap: Port) -> BTreeMap<u32, Port> {
        let nic = Port { forwarding: true, vlans: vec![member(1, true), member(5, false)], ..Port::default() };
        [(NIC, nic), (TAP, tap)].into()
    }

    fn forwarding() -> Port {
        Port { forwarding: true, vlans: vec![member(1, true)], ..Port::default() }
    }

    fn behind(ifindex: u32) -> Option<Entry> {
        Some(Entry { ifindex, isolated: false, untagged: false })
    }

    #[test]
    fn a_station_is_told_when_it_comes_moves_and_goes_and_not_twice() {
        let mut mirror = Mirror::default();
        mirror.set_ports(false, ports(forwarding()));
        let guest = station(1, 0);
        assert_eq!(mirror.set_station(guest, Some(TAP)), Some((guest, behind(TAP))));
        assert_eq!(mirror.set_station(guest, Some(TAP)), None);
        assert_eq!(mirror.set_station(guest, Some(NIC)), Some((guest, behind(NIC))));
        assert_eq!(mirror.set_station(guest, None), Some((guest, None)));
        assert_eq!(mirror.set_station(guest, None), None);
        assert_eq!(mirror.len(), 0);
    }

    #[test]
    fn stations_behind_other_interfaces_are_unknown() {
        let mut mirror = Mirror::default();
        mirror.set_ports(false, ports(forwarding()));
        assert_eq!(mirror.set_station(station(1, 0), Some(9)), None);
    }

    #[test]
    fn what_is_behind_a_blocked_port_is_unknown_until_it_forwards() {
        let mut mirror = Mirror::default();
        let guest = station(1, 0);
        mirror.set_ports(false, ports(Port::default()));
        assert_eq!(mirror.set_station(guest, Some(TAP)), None);
        assert_eq!(mirror.set_ports(false, ports(forwarding())), [(guest, behind(TAP))]);
        assert_eq!(mirror.set_ports(false, ports(Port::default())), [(guest, None)]);
    }

    #[test]
    fn vlans_count_only_where_the_bridge_tells_them_apart() {
        let mut mirror = Mirror::default();
        let all = [(station(1, 0), NIC), (station(1, 1), NIC), (station(1, 5), NIC), (station(1, 6), NIC)];
        mirror.set_ports(false, ports(forwarding()));
        assert_eq!(mirror.set_stations(all), [(station(1, 0), behind(NIC))]);
        let untagged = Some(Entry { untagged: true, ..behind(NIC).unwrap() });
        assert_eq!(
            mirror.set_ports(true, ports(forwarding())),
            [(station(1, 0), None), (station(1, 1), untagged), (station(1, 5), behind(NIC))]
        );
    }

    #[test]
    fn a_station_that_is_not_in_the_whole_table_is_gone() {
        let mut mirror = Mirror::default();
        mirror.set_ports(false, ports(forwarding()));
        mirror.set_stations([(station(1, 0), NIC), (station(2, 0), TAP)]);
        assert_eq!(mirror.set_stations([(station(1, 0), NIC)]), [(station(2, 0), None)]);
        assert_eq!(mirror.told(&station(1, 0)), behind(NIC));
    }

    #[test]
    fn untagged_frames_are_in_the_ports_own_vlan() {
        assert_eq!((forwarding().pvid(), Port::default().pvid()), (1, 0));
    }
}
