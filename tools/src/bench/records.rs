//! Records of measured products: a line of JSON each, written by `tune`, read by `plan` and `bench`.

use super::report::quote;
use serde_json::Value;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use tilelift_ir::Scalar;
use tilelift_isel::gemm::{Choice, Product};

/// The most bytes of a file of records: some ten thousands of them.
const MAX_RECORDS: u64 = 16 << 20;

/// A product that ran with a choice.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Record {
    /// The device's name.
    pub(crate) device: String,
    pub(crate) product: Product,
    pub(crate) choice: Choice,
    /// The median, and what the model said.
    pub(crate) seconds: f64,
    pub(crate) predicted: f64,
}

impl Record {
    /// Its line.
    fn line(&self) -> String {
        let Product { batch, shape: [m, n, k], elem, out, trans } = self.product;
        let Choice { tile: [bm, bn, bk], consumers, consumer_sets, swapped, stages, group, splits, stream_k, clusters } = self.choice;
        let mut streams = stream_k.map_or_else(String::new, |s| format!("\"streams\": \"{s}\", "));
        if let Some(c) = clusters {
            streams += &format!("\"clusters\": \"{c}\", ");
        }
        format!(
            "{{\"device\": {}, \"batch\": {batch}, \"m\": {m}, \"n\": {n}, \"k\": {k}, \"elem\": \"{elem}\", \"out\": \"{out}\", \"trans_a\": {}, \"trans_b\": {}, \
             \"tile\": [{bm}, {bn}, {bk}], \"consumers\": {consumers}, \"consumer_sets\": {consumer_sets}, \"swapped\": {swapped}, \"stages\": {stages}, \"group\": {group}, \"splits\": {splits}, {streams}\
             \"seconds\": {:e}, \"predicted\": {:e}}}",
            quote(&self.device),
            trans.0,
            trans.1,
            self.seconds,
            self.predicted
        )
    }

    fn parse(line: &str) -> Option<Record> {
        let v: Value = serde_json::from_str(line).ok()?;
        let number = |v: &Value| v.as_u64().and_then(|n| u32::try_from(n).ok());
        let of = |key: &str| number(&v[key]);
        let scalar = |key: &str| Scalar::from_name(v[key].as_str()?);
        let tile = v["tile"].as_array()?.iter().map(number).collect::<Option<Vec<u32>>>()?;
        Some(Record {
            device: v["device"].as_str()?.to_owned(),
            product: Product {
                // Older records have none.
                batch: if v["batch"].is_null() { 1 } else { of("batch")? },
                shape: [of("m")?, of("n")?, of("k")?],
                elem: scalar("elem")?,
                out: scalar("out")?,
                trans: (v["trans_a"].as_bool()?, v["trans_b"].as_bool()?),
            },
            choice: Choice {
                tile: tile.try_into().ok()?,
                consumers: of("consumers")?,
                consumer_sets: of("consumer_sets")?,
                swapped: v["swapped"].as_bool()?,
                stages: of("stages")?,
                group: of("group")?,
                splits: of("splits")?,
                // Most have none.
                stream_k: if v["streams"].is_null() { None } else { Some(v["streams"].as_str()?.parse().ok()?) },
                clusters: if v["clusters"].is_null() { None } else { Some(v["clusters"].as_str()?.parse().ok()?) },
            },
            seconds: v["seconds"].as_f64().filter(|s| *s > 0.0)?,
            predicted: v["predicted"].as_f64()?,
        })
        .filter(Record::makes_sense)
    }

    /// Nothing in the choice is zero, or more than any machine has.
    fn makes_sense(&self) -> bool {
        let c = &self.choice;
        let numbers = [(c.consumers, 8), (c.consumer_sets, 2), (c.stages, 64), (c.group, 1 << 16), (c.splits, 64)];
        c.tile.iter().all(|&e| (1..=4096).contains(&e)) && numbers.iter().all(|&(x, most)| (1..=most).contains(&x))
    }
}

/// The records of a file.
///
/// # Errors
/// A sentence: the file can't be read, or which line is no record.
pub(crate) fn read(path: &str) -> Result<Vec<Record>, String> {
    let text = crate::read::text(Path::new(path), MAX_RECORDS).map_err(|e| format!("{path}: {e}"))?;
    let lines = text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty());
    lines.map(|(n, l)| Record::parse(l).ok_or_else(|| format!("{path}, line {}: no record of `tilelift tune`", n + 1))).collect()
}

/// Adds records to a file.
///
/// # Errors
/// A sentence, if the file can't be written.
pub(crate) fn append(path: &str, records: &[Record]) -> Result<(), String> {
    let text: String = records.iter().map(|r| r.line() + "\n").collect();
    let write = |text: &str| OpenOptions::new().create(true).append(true).open(path)?.write_all(text.as_bytes());
    write(&text).map_err(|e| format!("{path}: {e}"))
}

/// The last record of a product with a choice.
pub(crate) fn of<'r>(records: &'r [Record], product: &Product, choice: &Choice) -> Option<&'r Record> {
    records.iter().rev().find(|r| r.product == *product && r.choice == *choice)
}

/// The quickest record of a product.
pub(crate) fn best<'r>(records: &'r [Record], product: &Product) -> Option<&'r Record> {
    records.iter().filter(|r| r.product == *product).min_by(|a, b| a.seconds.total_cmp(&b.seconds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilelift_isel::gemm::StreamK;

    fn record(seconds: f64) -> Record {
        Record {
            device: "a \"GPU\"".into(),
            product: Product { batch: 3, shape: [64, 128, 256], elem: Scalar::F8E4M3, out: Scalar::BF16, trans: (false, true) },
            choice: Choice {
                tile: [64, 128, 128],
                consumers: 1,
                consumer_sets: 2,
                swapped: true,
                stages: 4,
                group: 8,
                splits: 2,
                stream_k: None,
                clusters: None,
            },
            seconds,
            predicted: 1.5e-6,
        }
    }

    #[test]
    fn lines_come_back_as_they_were_and_others_are_refused() {
        let r = record(2.25e-6);
        assert_eq!(Record::parse(&r.line()), Some(r.clone()));
        let stream_k = Some(StreamK { workers: 132, in_flight: 3, rest: true });
        let dealt = Record { choice: Choice { stream_k, ..r.choice }, ..r.clone() };
        assert_eq!(Record::parse(&dealt.line()), Some(dealt.clone()));
        assert_eq!(Record::parse(&dealt.line().replace("132x3r", "132y3")), None);
        for wrong in [
            "{}",
            "[]",
            "x",
            &r.line().replace("[64, 128, 128]", "[64, 128]"),
            &r.line().replace("f8e4m3", "f7"),
            &r.line().replace("\"splits\": 2", "\"splits\": 0"),
            &record(-1.0).line(),
        ] {
            assert_eq!(Record::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_quickest_record_of_a_product_is_the_best() {
        let list = [record(3e-6), record(2e-6), record(4e-6)];
        assert_eq!(best(&list, &list[0].product).map(|r| r.seconds), Some(2e-6));
        assert_eq!(of(&list, &list[0].product, &list[0].choice).map(|r| r.seconds), Some(4e-6));
        let other = Product { shape: [1, 1, 1], ..list[0].product };
        assert_eq!(best(&list, &other), None);
    }
}
