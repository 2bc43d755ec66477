//! An Arrow IPC stream whose batches carry a checksum, so that a bit that flips on a disk later is seen.
//!
//! `custom_metadata` of each batch's message has `latlab.crc32`: the CRC-32 (IEEE 802.3, as zlib's) of the schema's message
//! followed by the batch's whole message, in which the checksum's eight digits are zeros. So a schema that changed is seen,
//! too. Readers that do not know it pass over it. `latlab.first_row` says how many rows came before.

use arrow_array::RecordBatch;
use arrow_ipc::writer::StreamWriter;
use arrow_ipc::{KeyValue, KeyValueArgs, MessageArgs, MessageHeader, RecordBatchArgs, root_as_message};
use arrow_schema::{ArrowError, Schema};
use crc32fast::Hasher;
use flatbuffers::FlatBufferBuilder;
use std::io::Write;

const CHECKSUM: &str = "latlab.crc32";
const FIRST_ROW: &str = "latlab.first_row";
const NO_DIGITS: &str = "00000000";
/// What precedes a message: the continuation marker, and the length of its metadata.
const PREFIX: usize = 8;
/// Bodies begin at a multiple of this, as arrow's own writer has it.
const ALIGNMENT: usize = 64;

/// Writes each message by one call of `write_all`.
pub struct CheckedStream<W> {
    out: W,
    /// Makes the messages; what it wrote is taken out at once.
    messages: StreamWriter<Vec<u8>>,
    /// Of the schema's message.
    begun: Hasher,
    rows: usize,
}

impl<W: Write> CheckedStream<W> {
    /// Writes the schema.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn begin(mut out: W, schema: &Schema) -> Result<Self, ArrowError> {
        let mut messages = StreamWriter::try_new(Vec::new(), schema)?;
        let message = std::mem::take(messages.get_mut());
        out.write_all(&message)?;
        let mut begun = Hasher::new();
        begun.update(&message);
        Ok(Self { out, messages, begun, rows: 0 })
    }

    /// Writes a batch.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<(), ArrowError> {
        self.messages.write(batch)?;
        let plain = std::mem::take(self.messages.get_mut());
        let message = self.checked(&plain)?;
        self.out.write_all(&message)?;
        self.rows += batch.num_rows();
        Ok(())
    }

    /// Writes the end of the stream.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn finish(&mut self) -> Result<(), ArrowError> {
        self.messages.finish()?;
        Ok(self.out.write_all(self.messages.get_ref())?)
    }

    /// The message of a batch with its checksum.
    fn checked(&self, plain: &[u8]) -> Result<Vec<u8>, ArrowError> {
        let of_arrow = || ArrowError::IpcError("arrow made no message of a batch".into());
        let metadata_length = plain.get(4..PREFIX).and_then(|length| length.try_into().ok()).map(u32::from_le_bytes);
        let body_at = PREFIX + metadata_length.ok_or_else(of_arrow)? as usize;
        let (head, body) = plain.split_at_checked(body_at).ok_or_else(of_arrow)?;
        let (metadata, digits_at) = self.metadata(&head[PREFIX..]).ok_or_else(of_arrow)?;

        let padded = (PREFIX + metadata.len()).next_multiple_of(ALIGNMENT);
        let mut message = Vec::with_capacity(padded + body.len());
        message.extend_from_slice(&plain[..4]);
        message.extend_from_slice(&((padded - PREFIX) as u32).to_le_bytes());
        message.extend_from_slice(&metadata);
        message.resize(padded, 0);
        message.extend_from_slice(body);

        let mut hasher = self.begun.clone();
        hasher.update(&message);
        let digits = format!("{:08x}", hasher.finalize());
        message[PREFIX + digits_at..][..digits.len()].copy_from_slice(digits.as_bytes());
        Ok(message)
    }

    /// The metadata of a batch's message with ours beside, and where in it the digits of the checksum are.
    fn metadata(&self, plain: &[u8]) -> Option<(Vec<u8>, usize)> {
        let message = root_as_message(plain).ok()?;
        let batch = message.header_as_record_batch()?;
        let mut fbb = FlatBufferBuilder::new();
        let digits = fbb.create_string(NO_DIGITS);
        // What was made first is last, so a place is told by how far it is from the end; a length (4 bytes) precedes the text.
        let from_end = digits.value() as usize - 4;
        let key = fbb.create_string(CHECKSUM);
        let checksum = KeyValue::create(&mut fbb, &KeyValueArgs { key: Some(key), value: Some(digits) });
        let rows = fbb.create_string(&self.rows.to_string());
        let key = fbb.create_string(FIRST_ROW);
        let first_row = KeyValue::create(&mut fbb, &KeyValueArgs { key: Some(key), value: Some(rows) });
        let ours = fbb.create_vector(&[checksum, first_row]);
        let nodes: Vec<_> = batch.nodes()?.iter().copied().collect();
        let buffers: Vec<_> = batch.buffers()?.iter().copied().collect();
        let (nodes, buffers) = (fbb.create_vector(&nodes), fbb.create_vector(&buffers));
        let of_batch = RecordBatchArgs {
            length: batch.length(),
            nodes: Some(nodes),
            buffers: Some(buffers),
            ..RecordBatchArgs::default()
        };
        let header = arrow_ipc::RecordBatch::create(&mut fbb, &of_batch).as_union_value();
        let of_message = MessageArgs {
            version: message.version(),
            header_type: MessageHeader::RecordBatch,
            header: Some(header),
            bodyLength: message.bodyLength(),
            custom_metadata: Some(ours),
        };
        let root = arrow_ipc::Message::create(&mut fbb, &of_message);
        fbb.finish(root, None);
        let metadata = fbb.finished_data().to_vec();
        let digits_at = metadata.len().checked_sub(from_end)?;
        metadata[digits_at..].starts_with(NO_DIGITS.as_bytes()).then_some((metadata, digits_at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{ArrayRef, Int64Array, StringArray};
    use arrow_ipc::reader::StreamReader;
    use std::sync::Arc;

    fn batches() -> Vec<RecordBatch> {
        let batch = |numbers: Vec<Option<i64>>, words: Vec<Option<&str>>| {
            let columns: [(&str, ArrayRef); 2] =
                [("n", Arc::new(Int64Array::from(numbers))), ("comm", Arc::new(StringArray::from(words)))];
            RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true))).unwrap()
        };
        vec![
            batch(vec![Some(1), None, Some(3)], vec![Some("a"), Some("bc"), None]),
            batch(vec![Some(4)], vec![Some("d")]),
        ]
    }

    /// What the stream writes by each call: schema, batches, end.
    fn messages(batches: &[RecordBatch]) -> Vec<Vec<u8>> {
        let mut stream = CheckedStream::begin(Vec::new(), &batches[0].schema()).unwrap();
        let mut written = vec![std::mem::take(&mut stream.out)];
        for batch in batches {
            stream.write(batch).unwrap();
            written.push(std::mem::take(&mut stream.out));
        }
        stream.finish().unwrap();
        written.push(std::mem::take(&mut stream.out));
        written
    }

    fn said(message: &[u8], key: &str) -> String {
        let length = u32::from_le_bytes(message[4..PREFIX].try_into().unwrap()) as usize;
        let message = root_as_message(&message[PREFIX..PREFIX + length]).unwrap();
        let pair = message.custom_metadata().unwrap().iter().find(|pair| pair.key() == Some(key)).unwrap();
        pair.value().unwrap().to_owned()
    }

    #[test]
    fn any_reader_of_arrow_has_the_rows() {
        let written = messages(&batches()).concat();
        let read: Vec<_> = StreamReader::try_new(&written[..], None).unwrap().map(Result::unwrap).collect();
        assert_eq!(read, batches());
    }

    #[test]
    fn a_checksum_is_that_of_the_schema_and_the_batch() {
        let written = messages(&batches());
        for message in &written[1..3] {
            let digits = said(message, CHECKSUM);
            let at = message.windows(8).position(|bytes| bytes == digits.as_bytes()).unwrap();
            let mut zeroed = message.clone();
            zeroed[at..at + 8].copy_from_slice(NO_DIGITS.as_bytes());
            assert_eq!(digits, format!("{:08x}", crc32fast::hash(&[&written[0][..], &zeroed].concat())));
        }
    }

    #[test]
    fn a_batch_says_how_many_rows_came_before_it_and_its_body_is_aligned() {
        let written = messages(&batches());
        let first: Vec<_> = written[1..3].iter().map(|message| said(message, FIRST_ROW)).collect();
        assert_eq!(first, ["0", "3"]);
        assert!(written[..3].iter().all(|message| message.len() % ALIGNMENT == 0));
    }
}
