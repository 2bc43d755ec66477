//! Whether an offset that a ptp4l reports was measured against the master it follows now.
//!
//! It tells its last one until it has measured another. It measures none before it knows the path's delay, though Syncs come
//! in already: `clock_synchronize` then sets `ingress_time` and leaves `master_offset` alone, at 0 if there never was one.
//! With the choice of another master `ingress_time` is zeroed and the delay forgotten, but not `master_offset`, nor the
//! delay that CURRENT_DATA_SET reports (`handle_state_decision_event`; both linuxptp, clock.c).

use super::{PortIdentity, PortState};

/// What a clock that was asked before had told: an empty one knows nothing of that.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    before: Option<Told>,
    /// The offset that was reported before the present master was followed: told again, it says nothing of this one.
    old_ns: Option<i64>,
    /// Since then another was told.
    measured: bool,
}

/// What bears on it, of one answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told {
    /// Number of the port that speaks.
    pub port: u16,
    /// Its state.
    pub state: PortState,
    /// Whom it follows, if that was reported.
    pub parent: Option<PortIdentity>,
    /// Whether an Announce has said so.
    pub announced: bool,
    /// `master_offset`, whatever it is worth.
    pub offset_ns: i64,
    /// Whether a Sync has come in, of this master, since the clock was last stepped.
    pub synced: bool,
    /// Whether a delay was told, other than 0.
    pub delay: bool,
    /// Whether that is of the neighbour, whoever the master is.
    pub peer_delay: bool,
}

impl Memory {
    /// Whether the offset just told is of the master that is followed. To be given each answer in turn.
    pub(super) fn is_measured(&mut self, now: Told) -> bool {
        use PortState::{Slave, Uncalibrated};
        if let Some(before) = self.before.replace(now) {
            let same_master = before.port == now.port && before.parent == now.parent && before.state.follows();
            if same_master && (before.state, now.state) == (Uncalibrated, Slave) {
                // Only an offset that was measured brings a port there (port_synchronize in port.c, fsm.c).
                (self.old_ns, self.measured) = (None, true);
            } else if !same_master || !before.synced || (before.state, now.state) == (Slave, Uncalibrated) {
                (self.old_ns, self.measured) = (Some(before.offset_ns), false);
            }
        }
        if !now.state.follows() || !now.synced || self.old_ns == Some(now.offset_ns) {
            return false;
        }
        // Without a memory of it: a port that is made SLAVE by Announces has got there by an offset. One that is SLAVE from
        // the start (BMCA noop) has not, and a peer delay may be known before it is used.
        let delay_used = now.delay && !(now.peer_delay && now.state == Uncalibrated);
        self.measured |= now.offset_ns != 0 || delay_used || (now.state == Slave && now.announced);
        if self.measured {
            self.old_ns = None;
        }
        self.measured
    }
}

#[cfg(test)]
mod tests {
    use super::super::ClockIdentity;
    use super::*;
    use PortState::{Listening, Slave, Uncalibrated};

    fn master(number: u64) -> Option<PortIdentity> {
        Some(PortIdentity { clock: ClockIdentity(number), port: 1 })
    }

    fn told(state: PortState, parent: u64, offset_ns: i64) -> Told {
        Told {
            port: 1,
            state,
            parent: master(parent),
            announced: true,
            offset_ns,
            synced: true,
            delay: true,
            peer_delay: false,
        }
    }

    /// Which of the answers, given in this order, told an offset that counts.
    fn counted(answers: &[Told]) -> Vec<bool> {
        let mut memory = Memory::default();
        answers.iter().map(|&answer| memory.is_measured(answer)).collect()
    }

    fn without_delay(told: Told) -> Told {
        Told { delay: false, ..told }
    }

    fn without_sync(told: Told) -> Told {
        Told { synced: false, ..told }
    }

    #[test]
    fn before_the_first_delay_0_is_no_offset() {
        let first_syncs = without_delay(told(Uncalibrated, 7, 0));
        assert_eq!(counted(&[first_syncs, first_syncs, told(Uncalibrated, 7, 40)]), [false, false, true]);
        let listening = without_sync(without_delay(told(Listening, 1, 0)));
        assert_eq!(counted(&[listening, first_syncs, told(Slave, 7, 0)]), [false, false, true]);
    }

    #[test]
    fn where_nothing_is_announced_being_a_slave_proves_no_offset() {
        let slave = |offset_ns| Told { announced: false, ..without_delay(told(Slave, 7, offset_ns)) };
        assert_eq!(counted(&[slave(0), slave(0)]), [false, false]);
        // A path without delay: once there was an offset, 0 is one as well.
        assert_eq!(counted(&[slave(0), slave(-3), slave(0)]), [false, true, true]);
        assert_eq!(counted(&[Told { announced: false, peer_delay: true, ..told(Slave, 7, 0) }]), [true]);
    }

    #[test]
    fn on_a_path_without_delay_an_announced_slave_at_0_has_an_offset() {
        assert_eq!(counted(&[without_delay(told(Slave, 7, 0))]), [true]);
        let uncalibrated = without_delay(told(Uncalibrated, 7, 0));
        assert_eq!(counted(&[uncalibrated, without_delay(told(Slave, 7, 0))]), [false, true]);
    }

    #[test]
    fn a_neighbours_delay_that_is_not_yet_used_makes_0_no_offset() {
        assert_eq!(counted(&[Told { peer_delay: true, ..told(Uncalibrated, 7, 0) }]), [false]);
    }

    #[test]
    fn another_masters_offset_does_not_count_until_there_is_a_new_one() {
        let of_seven = told(Slave, 7, 250);
        let still_told = told(Uncalibrated, 8, 250);
        assert_eq!(
            counted(&[of_seven, without_sync(still_told), still_told, still_told, told(Uncalibrated, 8, -90)]),
            [true, false, false, false, true]
        );
        // The same where the time without a Sync fell between two answers, and where another port leads to the same master.
        assert_eq!(counted(&[of_seven, still_told, told(Uncalibrated, 8, -90)]), [true, false, true]);
        assert_eq!(counted(&[of_seven, Told { port: 2, ..of_seven }]), [true, false]);
        // And where the master has no successor at first, or comes back itself.
        let listening = Told { announced: false, ..without_sync(told(Listening, 7, 250)) };
        assert_eq!(counted(&[of_seven, listening, told(Uncalibrated, 7, 250)]), [true, false, false]);
        assert_eq!(counted(&[of_seven, told(Uncalibrated, 7, 250), told(Slave, 7, 250)]), [true, false, true]);
    }

    #[test]
    fn after_a_step_the_next_offset_counts_at_once() {
        let far = told(Uncalibrated, 7, 5_000_000);
        assert_eq!(counted(&[far, without_sync(far), told(Uncalibrated, 7, 12)]), [true, false, true]);
    }
}
