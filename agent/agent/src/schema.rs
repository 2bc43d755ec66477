//! `latlab-agent schema`: the formats that lab and agent share, from the types that declare them.

use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};
use std::process::ExitCode;
use wire::event::Event;
use wire::limits::limits;
use wire::record::tables;
use wire::spec::{
    Bridge, Busy, Clock, Command, Dds, Drops, Flood, Listen, Ping, Pong, Ptp, Talk, Timer, Tracing, Watch,
};

/// Prints them; see `whole`.
pub fn run() -> ExitCode {
    println!("{:#}", whole());
    ExitCode::SUCCESS
}

/// `specs`: by verb, what it reads on standard input first; `command`: what it reads after that; `event`: a line that it
/// tells; each JSON Schema, draft 2020-12. `recordings`: by table, its columns ([`tables`]).
/// `limits`: what the lab keeps within, too ([`limits`]).
fn whole() -> Value {
    let mut specs = Map::new();
    let mut spec = |verb: &str, schema: Value| specs.insert(verb.into(), schema);
    spec("bridge", read::<Bridge>());
    spec("busy", read::<Busy>());
    spec("clock", read::<Clock>());
    spec("dds", read::<Dds>());
    spec("drops", read::<Drops>());
    spec("flood", read::<Flood>());
    spec("listen", read::<Listen>());
    spec("ping", read::<Ping>());
    spec("pong", read::<Pong>());
    spec("ptp", read::<Ptp>());
    spec("talk", read::<Talk>());
    spec("timer", read::<Timer>());
    spec("trace", read::<Tracing>());
    spec("watch", read::<Watch>());
    let event = schema::<Event>(SchemaSettings::draft2020_12().for_serialize());
    json!({"specs": specs, "command": read::<Command>(), "event": event, "recordings": tables(), "limits": limits()})
}

fn read<T: JsonSchema>() -> Value {
    schema::<T>(SchemaSettings::draft2020_12().for_deserialize())
}

fn schema<T: JsonSchema>(settings: SchemaSettings) -> Value {
    SchemaGenerator::new(settings).into_root_schema_for::<T>().to_value()
}
