//! `pong`: answers the questions of a ping, each leg of the way recorded.

mod answering;

use crate::realtime::prepare_process;
use crate::receiving::{ETHERNET_HEADER, STAMPING_STARTS, inlet};
use crate::round::ends::{Ends, Wiring};
use crate::round::{Outcome, Round, Side, Tables, hot};
use crate::sending::lane::Lane;
use crate::sending::outlet::Outlet;
use crate::session::{self, emit, refused};
use crate::stages::{Connection, Load};
use answering::Door;
use std::sync::Arc;
use sys::receive::Wait;
use sys::socket::Socket;
use wire::event::{Done, Event, Failure, Ready};
use wire::spec::{Mode, Pong, PongTransport};

/// An answer goes to where its question came from: until there is one, to nobody.
const NOBODY: [u8; 6] = [0; 6];

/// Runs the verb; its result has been reported when this returns.
///
/// # Errors
/// What the lab needs to know.
pub fn run() -> Result<(), Failure> {
    let (spec, session) = session::open::<Pong>("pong")?;
    spec.check().map_err(refused)?;
    let asked = &spec.side;
    let load = match spec.transport {
        PongTransport::Udp { listen } => Load::Datagrams { size: asked.size, ipv6: listen.is_ipv6() },
        PongTransport::Ethernet { .. } => Load::Frames { size: asked.size, prefix: 0 },
        PongTransport::Tcp { listen } => Load::Bytes(Connection {
            size: asked.size,
            port: listen.port(),
            asks: false,
            sends: asked.down,
            hears: asked.up,
        }),
    };
    let (side, stages) = Side::new("pong", asked, (asked.down, asked.up), None, load)?;
    let process = Arc::new(prepare_process(&asked.realtime)?);
    let tables = Tables::create(&side)?;
    let wiring = Wiring::new(asked, &side, 1, true);
    let place = wiring.place.clone();
    let (lane, door) = open(&spec, wiring)?;
    let local = vec![lane.local()];
    let header = if matches!(spec.transport, PongTransport::Ethernet { .. }) { ETHERNET_HEADER } else { 0 };
    let (stamp_key, stamps_by) = (side.stamp_key(&stages), stages.found());
    let (mut round, intake, tap) = Round::begin(side, stages, tables, Some(Arc::clone(&lane.socket)), header)?;

    let outlet = Outlet::new(lane, asked.run_id, tap, Arc::clone(&round.shared.counters));
    let wait = if asked.mode == Mode::Spin { Wait::Never } else { Wait::Block };
    let stop = Arc::clone(&round.shared.stop);
    let (realtime, answering) =
        hot("pong", &asked.realtime, &process, move || answering::run(door, outlet, intake, wait, &stop))?;
    std::thread::sleep(STAMPING_STARTS);
    emit(&Event::Ready(Ready { stamp_key, stamps_by, ..session::ready("pong", realtime, local)? }));
    round.note_clocks();
    round.watch(&session, &answering);
    let heard = round.joined(answering).and_then(|heard| heard.map_err(|error| inlet::ended(error, &place)));
    let Outcome { sent, send_errors, totals, .. } = round.finish(heard)?;
    emit(&Event::Done(Done::Pong { answered: sent, send_errors, totals }));
    Ok(())
}

/// The way out, and where questions come in.
fn open(spec: &Pong, wiring: Wiring) -> Result<(Lane, Door), Failure> {
    let ends = match spec.transport {
        PongTransport::Udp { listen } => {
            let remedy =
                "check that the interface exists, has the address (ip addr) and nothing else uses the port (ss -ulpn)";
            wiring.datagrams(Socket::udp(listen, Some(&spec.side.interface)).map_err(wiring.problem(remedy))?)?
        }
        PongTransport::Ethernet { ethertype, vlan, pcp } => wiring.frames(NOBODY, ethertype, vlan, pcp)?,
        PongTransport::Tcp { listen } => {
            let socket = wiring.tcp(listen)?;
            let remedy = "check that nothing else uses the port (ss -tlpn)";
            socket.listen().map_err(wiring.problem(remedy))?;
            wiring.messages(socket)?
        }
    };
    Ok(match ends {
        Ends::Packets(lane, inlet) => (lane, Door::Packets(inlet)),
        // Nothing is sent by the socket that listens: each connection brings its own lane.
        Ends::Bytes(lane, _) => {
            let listener = Arc::clone(&lane.socket);
            (lane, Door::Connections(listener, wiring))
        }
    })
}
