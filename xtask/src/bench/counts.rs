//! `cargo xtask bench counts`: the instructions of a fixed set of requests, compared with the counts
//! on file, `bench/counts.csv`.
//!
//! More than [`SLOWER_PERCENT`] more is a failure: a slowdown is a red test. More than
//! [`FASTER_PERCENT`] less asks for the file to be renewed, or what was won could be lost unseen.

use std::fmt::Write as _;
use std::fs;
use std::thread;

use super::callgrind::{self, Callgrind, Count};
use super::prepare;
use crate::cargo;
use crate::failure::{self, Failure, Outcome};
use crate::fetch::Fetched;

/// The counts on file; below the top folder.
const FILE: &str = "bench/counts.csv";

const SLOWER_PERCENT: u64 = 5;
const FASTER_PERCENT: u64 = 10;

/// `bench counts [--update]`.
pub(super) fn command(arguments: &[String]) -> Outcome<()> {
    let (flags, _) = crate::flags(arguments, &["--update"])?;
    let fetched = crate::fetch::ensure()?;
    if !flags.contains(&"--update") {
        return compare(&fetched).map(|remark| remark.iter().for_each(|it| println!("{it}")));
    }
    let file = File::read()?;
    match measure(&fetched, &file.rows)? {
        Ok(counts) => file.write(&counts),
        Err(reason) => Err(Failure::new(reason)),
    }
}

/// Compares; the text is what a person has to know although nothing failed.
pub(super) fn compare(fetched: &Fetched) -> Outcome<Option<String>> {
    let rows = File::read()?.rows;
    let counts = match measure(fetched, &rows)? {
        Ok(counts) => counts,
        Err(reason) => return Ok(Some(format!("SKIPPED, instruction counts: {reason}"))),
    };
    let compared = Compared::new(&rows, &counts);
    println!("{}", compared.table);
    if compared.slower > 0 {
        let slower = compared.slower;
        return Err(Failure::new(format!(
            "{slower} requests take over {SLOWER_PERCENT} % more instructions than {FILE} says"
        )));
    }
    let renew = "`cargo xtask bench counts --update` writes them down";
    Ok((compared.faster > 0).then(|| {
        let faster = compared.faster;
        format!("{faster} requests take over {FASTER_PERCENT} % less than {FILE} says: {renew}")
    }))
}

/// Counts of the rows, in order, or why there are none.
fn measure(fetched: &Fetched, rows: &[Row]) -> Outcome<Result<Vec<Count>, String>> {
    if std::env::var_os("GLACIS_CRS_DIR").is_some_and(|named| !named.is_empty()) {
        return Ok(Err("those on file are of the pinned CRS, not of GLACIS_CRS_DIR".to_owned()));
    }
    let folder = super::folder();
    let callgrind = match Callgrind::new(&folder)? {
        Ok(callgrind) => callgrind,
        Err(reason) => return Ok(Err(reason)),
    };
    let workload = prepare::workload(&folder)?;
    // Nearly all of the time goes into compiling the rules once for each level.
    let of_level = |level: u8| -> Outcome<Vec<Count>> {
        let wanted = rows.iter().filter(|row| row.level == level);
        let wanted: Vec<_> = wanted.map(|row| (row.class.clone(), row.id.clone())).collect();
        let lines = callgrind::lines(&workload, &wanted)?;
        let rules = prepare::rules(&folder, &fetched.crs, level)?;
        callgrind.run(&format!("pl{level}"), &rules, &lines)
    };
    let mut levels: Vec<u8> = rows.iter().map(|row| row.level).collect();
    levels.dedup();
    let counts: Vec<Outcome<Vec<Count>>> = thread::scope(|scope| {
        let of_level = &of_level;
        let started: Vec<_> =
            levels.iter().map(|level| scope.spawn(move || of_level(*level))).collect();
        let ended = started.into_iter().map(|thread| thread.join());
        ended.map(|ended| ended.unwrap_or_else(|_| Err(Failure::new("a thread died")))).collect()
    });
    let counts: Outcome<Vec<Vec<Count>>> = counts.into_iter().collect();
    Ok(Ok(counts?.into_iter().flatten().collect()))
}

/// A line of the file.
#[derive(Debug, PartialEq)]
struct Row {
    /// The paranoia level up to which rules run.
    level: u8,
    class: String,
    id: String,
    instructions: u64,
}

/// The file: what stands above the rows, and the rows, those of one level together.
struct File {
    head: String,
    rows: Vec<Row>,
}

impl File {
    fn read() -> Outcome<Self> {
        let path = cargo::root().join(FILE);
        Self::parse(&fs::read_to_string(&path).map_err(failure::io("read", &path))?)
    }

    fn parse(text: &str) -> Outcome<Self> {
        let (head, lines): (Vec<&str>, Vec<&str>) =
            text.lines().partition(|line| line.starts_with('#'));
        let wrong = |line: &str| Failure::new(format!("{FILE}: not four columns: {line}"));
        let row = |line: &str| {
            let columns: Vec<&str> = line.split(',').collect();
            let [level, class, id, instructions] = columns.as_slice() else {
                return Err(wrong(line));
            };
            Ok(Row {
                level: level.parse().map_err(|_| wrong(line))?,
                class: (*class).to_owned(),
                id: (*id).to_owned(),
                instructions: instructions.parse().map_err(|_| wrong(line))?,
            })
        };
        let rows = lines.into_iter().map(row).collect::<Outcome<Vec<Row>>>()?;
        if !rows.is_sorted_by_key(|row| row.level) || rows.is_empty() {
            return Err(Failure::new(format!("{FILE}: rows must be there, sorted by level")));
        }
        Ok(Self { head: head.join("\n"), rows })
    }

    fn write(&self, counts: &[Count]) -> Outcome<()> {
        let path = cargo::root().join(FILE);
        fs::write(&path, self.text(counts)).map_err(failure::io("write", &path))
    }

    fn text(&self, counts: &[Count]) -> String {
        let mut text = format!("{}\n", self.head);
        for (Row { level, class, id, .. }, count) in self.rows.iter().zip(counts) {
            let _ = writeln!(text, "{level},{class},{id},{}", count.instructions);
        }
        text
    }
}

struct Compared {
    table: String,
    slower: usize,
    faster: usize,
}

impl Compared {
    fn new(rows: &[Row], counts: &[Count]) -> Self {
        let mut table = format!("{:<32} {:>12} {:>12} {:>8}", "request", "on file", "now", "%");
        let (mut slower, mut faster) = (0, 0);
        for (row, count) in rows.iter().zip(counts) {
            let (old, now) = (row.instructions, count.instructions);
            let mark = if now * 100 > old * (100 + SLOWER_PERCENT) {
                slower += 1;
                "SLOWER"
            } else if now * 100 < old * (100 - FASTER_PERCENT) {
                faster += 1;
                "faster"
            } else {
                ""
            };
            let name = format!("PL{} {}", row.level, count.id);
            let change = (now as f64 / (old.max(1)) as f64 - 1.0) * 100.0;
            let _ = write!(table, "\n{name:<32} {old:>12} {now:>12} {change:>+8.1} {mark}");
        }
        Self { table, slower, faster }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(instructions: &[u64]) -> Vec<Row> {
        let row = |instructions: &u64| Row {
            level: 1,
            class: "c".to_owned(),
            id: "i".to_owned(),
            instructions: *instructions,
        };
        instructions.iter().map(row).collect()
    }

    fn counts(instructions: &[u64]) -> Vec<Count> {
        let count = |instructions: &u64| Count { id: "i".to_owned(), instructions: *instructions };
        instructions.iter().map(count).collect()
    }

    #[test]
    fn slower_is_red_from_five_percent_and_faster_is_told_from_ten() {
        for (now, slower, faster) in
            [(1_000, 0, 0), (1_050, 0, 0), (1_051, 1, 0), (900, 0, 0), (899, 0, 1)]
        {
            let compared = Compared::new(&rows(&[1_000]), &counts(&[now]));
            assert_eq!((compared.slower, compared.faster), (slower, faster), "{now}");
        }
        assert_eq!(Compared::new(&rows(&[0]), &counts(&[1])).slower, 1);
    }

    #[test]
    fn the_file_is_written_as_it_is_read() {
        let file = File::parse("# head\n# more\n1,c,i,5\n4,c,i,6\n").unwrap();
        assert_eq!(file.text(&counts(&[7, 8])), "# head\n# more\n1,c,i,7\n4,c,i,8\n");
        for wrong in ["", "# only\n", "1,c,i\n", "1,c,i,many\n", "4,c,i,5\n1,c,i,5\n"] {
            assert!(File::parse(wrong).is_err(), "{wrong}");
        }
        File::read().map_err(|failure| failure.to_string()).unwrap();
    }
}
