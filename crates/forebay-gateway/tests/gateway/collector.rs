//! Plays a collector of traces: takes what is posted to it, and reads it as the protocol says.
//!
//! The reader knows the form of protocol buffers and the numbers of OpenTelemetry's published
//! `.proto` files, and nothing of how the gateway writes.

use std::collections::BTreeMap;

use crate::house::eventually;
use crate::stub::{Asked, Stub, whole};

/// A collector on any free port.
pub(crate) struct Collector(pub(crate) Stub);

/// A span as it came.
#[derive(Clone, Debug, Default)]
pub(crate) struct Span {
    pub(crate) trace: String,
    pub(crate) id: String,
    pub(crate) parent: String,
    pub(crate) state: String,
    pub(crate) name: String,
    pub(crate) kind: u64,
    pub(crate) begun: u64,
    pub(crate) ended: u64,
    /// Names and moments of events.
    pub(crate) events: Vec<(String, u64)>,
    /// 2 says that it failed.
    pub(crate) status: u64,
    pub(crate) flags: u64,
    /// Its values as text.
    attributes: BTreeMap<String, String>,
    /// The name of the service it is of.
    pub(crate) service: String,
}

impl Span {
    /// The value of an attribute; empty where there is none.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.attributes.get(name).map_or("", String::as_str)
    }

    /// The names of all attributes.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.attributes.keys().map(String::as_str).collect()
    }

    /// What a worker is told that is called below this span.
    pub(crate) fn traceparent(&self) -> String {
        format!("00-{}-{}-01", self.trace, self.id)
    }
}

impl Collector {
    /// One that takes everything.
    pub(crate) fn open() -> Self {
        Self(Stub::start(|_, line| {
            line.write(&whole(200, "application/x-protobuf", ""));
        }))
    }

    /// The table that has traces sent here at once, with these further keys.
    pub(crate) fn table(&self, keys: &str) -> String {
        format!("[otel]\nendpoint = \"{}\"\ninterval_ms = 5\n{keys}\n", self.0.url())
    }

    /// Everything that came so far, in order.
    pub(crate) fn spans(&self) -> Vec<Span> {
        self.0.asked().iter().flat_map(read).collect()
    }

    /// Waits until so many spans are here.
    pub(crate) fn wait(&self, count: usize) -> Vec<Span> {
        eventually("the spans are here", || self.spans().len() >= count);
        let spans = self.spans();
        assert_eq!(spans.len(), count, "{spans:#?}");
        spans
    }
}

/// The spans of one request to a collector.
fn read(asked: &Asked) -> Vec<Span> {
    assert_eq!(asked.path, "/v1/traces");
    assert_eq!(asked.header("content-type"), Some("application/x-protobuf"));
    let mut spans = Vec::new();
    for resource_spans in all(&asked.body, 1) {
        let service = all(resource_spans, 1)
            .flat_map(|resource| attributes(resource, 1))
            .find_map(|(name, value)| (name == "service.name").then_some(value));
        for scope_spans in all(resource_spans, 2) {
            for bytes in all(scope_spans, 2) {
                let service = service.clone().unwrap_or_default();
                spans.push(Span { service, ..span(bytes) });
            }
        }
    }
    spans
}

fn span(bytes: &[u8]) -> Span {
    let mut span = Span { attributes: attributes(bytes, 9).collect(), ..Span::default() };
    for (field, value) in Fields(bytes) {
        match (field, value) {
            (1, Value::Bytes(it)) => span.trace = hex(it),
            (2, Value::Bytes(it)) => span.id = hex(it),
            (3, Value::Bytes(it)) => span.state = text(it),
            (4, Value::Bytes(it)) => span.parent = hex(it),
            (5, Value::Bytes(it)) => span.name = text(it),
            (6, Value::Number(it)) => span.kind = it,
            (7, Value::Number(it)) => span.begun = it,
            (8, Value::Number(it)) => span.ended = it,
            (9, _) => {}
            (11, Value::Bytes(it)) => {
                let name = all(it, 2).map(text).next().unwrap_or_default();
                span.events.push((name, number(it, 1)));
            }
            (15, Value::Bytes(it)) => span.status = number(it, 3),
            (16, Value::Number(it)) => span.flags = it,
            other => panic!("a span has no such field: {other:?}"),
        }
    }
    span
}

/// The `KeyValue`s in a field.
fn attributes(bytes: &[u8], field: u64) -> impl Iterator<Item = (String, String)> + '_ {
    all(bytes, field).map(|pair| {
        let name = all(pair, 1).map(text).next().expect("a key");
        let any = all(pair, 2).next().expect("a value");
        let value = match Fields(any).next().expect("a value has one of its forms") {
            (1, Value::Bytes(it)) => text(it),
            (2, Value::Number(it)) => (it == 1).to_string(),
            (3, Value::Number(it)) => it.to_string(),
            (4, Value::Number(it)) => f64::from_bits(it).to_string(),
            other => panic!("{name} has a value of another form: {other:?}"),
        };
        (name, value)
    })
}

fn number(bytes: &[u8], field: u64) -> u64 {
    let found = Fields(bytes).find_map(|(of, value)| match value {
        Value::Number(it) if of == field => Some(it),
        _ => None,
    });
    found.unwrap_or(0)
}

/// The messages, texts or bytes in a field.
fn all(bytes: &[u8], field: u64) -> impl Iterator<Item = &[u8]> {
    Fields(bytes).filter_map(move |(of, value)| match value {
        Value::Bytes(it) if of == field => Some(it),
        _ => None,
    })
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("texts are UTF-8")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

#[derive(Debug)]
enum Value<'b> {
    Number(u64),
    Bytes(&'b [u8]),
}

/// The fields of a message, in order.
struct Fields<'b>(&'b [u8]);

impl<'b> Fields<'b> {
    fn varint(&mut self) -> u64 {
        let mut value = 0;
        for place in 0.. {
            let byte = self.take(1)[0];
            value |= u64::from(byte & 0x7f) << (7 * place);
            if byte < 0x80 {
                break;
            }
        }
        value
    }

    fn take(&mut self, count: usize) -> &'b [u8] {
        let (taken, rest) = self.0.split_at_checked(count).expect("a message is whole");
        self.0 = rest;
        taken
    }
}

impl<'b> Iterator for Fields<'b> {
    type Item = (u64, Value<'b>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let key = self.varint();
        let value = match key & 7 {
            0 => Value::Number(self.varint()),
            1 => {
                let bytes = self.take(8).try_into().expect("eight bytes");
                Value::Number(u64::from_le_bytes(bytes))
            }
            2 => {
                let len = self.varint() as usize;
                Value::Bytes(self.take(len))
            }
            5 => {
                let bytes = self.take(4).try_into().expect("four bytes");
                Value::Number(u64::from(u32::from_le_bytes(bytes)))
            }
            other => panic!("{other} is no kind of value"),
        };
        Some((key >> 3, value))
    }
}
