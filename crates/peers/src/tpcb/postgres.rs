//! TPC-B on PostgreSQL: a server of its own over a local socket, and `pgbench`, which comes with
//! it.
//!
//! The transaction is that of `pgbench`'s own TPC-B: five prepared statements between `BEGIN` and
//! `END`, each a message to the server and back. Its script draws accounts, tellers and amounts as
//! the specification says and as our inputs are drawn, but not the same ones. Settings: `fsync` and
//! `synchronous_commit` on, `shared_buffers` as much as the other peers cache, all else as
//! installed.

use std::fs;
use std::path::{Path, PathBuf};

use workloads::tpcb::{Books, Spec, TELLERS, Workload};
use workloads::{Form, Measured, Observer, RunError, RunOptions, StoreError, allocated_bytes};

use super::server::{Server, finish};
use crate::shared::{CACHE_BYTES, create_directory};

const NAME: &str = "postgres";

const TABLES: &str = "
    CREATE TABLE branch (b_id int PRIMARY KEY, b_balance bigint NOT NULL, b_filler char(88) NOT NULL);
    CREATE TABLE teller (t_id int PRIMARY KEY, t_b_id int NOT NULL, t_balance bigint NOT NULL,
                         t_filler char(84) NOT NULL);
    CREATE TABLE account (a_id bigint PRIMARY KEY, a_b_id int NOT NULL, a_balance bigint NOT NULL,
                          a_filler char(80) NOT NULL);
    CREATE TABLE history (h_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, h_t_id int NOT NULL,
                          h_b_id int NOT NULL, h_a_id bigint NOT NULL, h_delta bigint NOT NULL,
                          h_time timestamp NOT NULL, h_filler char(10) NOT NULL);";

/// The transaction (clause 1.2), and how its input is drawn (clause 5.3).
const SCRIPT: &str = r"\set b random(1, :branches)
\set t (:b - 1) * :tellers + random(1, :tellers)
\set other random(1, greatest(:branches - 1, 1))
\set away random(1, 100)
\set home case when :branches > 1 and :away <= :remote then case when :other < :b then :other else :other + 1 end else :b end
\set a (:home - 1) * :accounts + random(1, :accounts)
\set delta random(-999999, 999999)
BEGIN;
UPDATE account SET a_balance = a_balance + :delta WHERE a_id = :a;
SELECT a_balance FROM account WHERE a_id = :a;
UPDATE teller SET t_balance = t_balance + :delta WHERE t_id = :t;
UPDATE branch SET b_balance = b_balance + :delta WHERE b_id = :b;
INSERT INTO history (h_t_id, h_b_id, h_a_id, h_delta, h_time, h_filler)
    VALUES (:t, :b, :a, :delta, CURRENT_TIMESTAMP, '');
END;
";

/// A PostgreSQL server with the tables of TPC-B.
pub struct PostgresBank {
    server: Server,
    directory: PathBuf,
}

impl PostgresBank {
    /// Makes a cluster in the directory `postgres.0` below an existing one, starts its server, and
    /// populates the tables.
    ///
    /// # Errors
    /// PostgreSQL is not installed, or refuses.
    pub fn create<O: Observer>(
        directory: &Path,
        spec: &Spec,
        workers: usize,
        progress: &O,
    ) -> Result<Self, StoreError> {
        let directory = create_directory(directory, NAME, 0)?;
        let server = Server::start(&directory, workers, CACHE_BYTES)?;
        let bank = Self { server, directory };
        bank.load(spec)?;
        progress.completed(0, spec.tuples());
        Ok(bank)
    }

    fn load(&self, spec: &Spec) -> Result<(), StoreError> {
        let Spec { branches, accounts, .. } = *spec;
        let tellers = u64::from(branches) * TELLERS;
        let all = u64::from(branches) * u64::from(accounts);
        self.server.sql(TABLES)?;
        for insert in [
            format!("INSERT INTO branch SELECT n, 0, '' FROM generate_series(1, {branches}) n"),
            format!(
                "INSERT INTO teller SELECT n, (n - 1) / {TELLERS} + 1, 0, '' FROM generate_series(1, {tellers}) n"
            ),
            format!(
                "INSERT INTO account SELECT n, (n - 1) / {accounts} + 1, 0, '' FROM generate_series(1, {all}) n"
            ),
            "VACUUM ANALYZE".to_owned(),
            "CHECKPOINT".to_owned(),
        ] {
            self.server.sql(&insert)?;
        }
        Ok(())
    }

    /// Runs as many transactions as the workload has, an even share by each worker, rounded up.
    /// Progress is reported at the end.
    ///
    /// # Errors
    /// `pgbench` failed, or the workload has several partitions.
    pub fn run<O: Observer>(
        &self,
        workload: &Workload,
        options: &RunOptions,
        progress: &O,
    ) -> Result<Measured, RunError> {
        let spec = workload.spec();
        if spec.partitions != 1 {
            return Err(RunError::Partitions { store: 1, workload: spec.partitions });
        }
        let fail = |source| RunError::Store {
            store: NAME.to_owned(),
            partition: 0,
            transaction: 0,
            source,
        };
        let measured = self.run_all(spec, options.workers, workload.first(0)).map_err(fail)?;
        progress.completed(0, measured.transactions());
        Ok(measured)
    }

    fn run_all(&self, spec: &Spec, workers: usize, first: u64) -> Result<Measured, StoreError> {
        let directory = self.server.directory();
        let script = directory.join("transaction.sql");
        fs::write(&script, SCRIPT).map_err(|error| StoreError::io(&script, error))?;
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let remote = if spec.form == Form::Specification { 15 } else { 0 };
        let mut pgbench = self.server.client("pgbench");
        pgbench
            .args(["--no-vacuum", "--protocol=prepared", "--log", "--log-prefix=latencies"])
            .arg(format!("--random-seed={}", spec.seed.wrapping_add(first)))
            .arg(format!("--client={workers}"))
            .arg(format!("--jobs={}", workers.min(cores)))
            .arg(format!("--transactions={}", spec.transactions.div_ceil(workers as u64)))
            .arg(format!("--define=branches={}", spec.branches))
            .arg(format!("--define=tellers={TELLERS}"))
            .arg(format!("--define=accounts={}", spec.accounts))
            .arg(format!("--define=remote={remote}"))
            .arg("--file")
            .arg(&script)
            .arg(Server::database());
        let said = finish("pgbench", pgbench)?;
        let rate = rate(&said).ok_or_else(|| {
            StoreError::engine(format!("pgbench does not tell its rate: {}", said.trim()))
        })?;
        let mut latencies = Vec::new();
        let entries = fs::read_dir(directory).map_err(|error| StoreError::io(directory, error))?;
        for entry in entries.flatten() {
            if entry.file_name().to_string_lossy().starts_with("latencies") {
                let path = entry.path();
                let log =
                    fs::read_to_string(&path).map_err(|error| StoreError::io(&path, error))?;
                latencies.extend(log.lines().filter_map(latency_us));
                fs::remove_file(&path).map_err(|error| StoreError::io(&path, error))?;
            }
        }
        let expected = spec.transactions.div_ceil(workers as u64) * workers as u64;
        if latencies.len() as u64 != expected {
            let ran = latencies.len();
            return Err(StoreError::engine(format!(
                "pgbench ran {ran} transactions of {expected}"
            )));
        }
        let seconds = expected as f64 / rate;
        Ok(Measured::of_one_kind(seconds, latencies.iter().map(|us| us * 1000)))
    }

    /// Reads all that the checks compare.
    ///
    /// # Errors
    /// PostgreSQL's.
    pub fn books(&self) -> Result<Books, StoreError> {
        let mut books = Books::default();
        for (sql, balances) in [
            ("SELECT b_id, b_balance FROM branch", &mut books.branches),
            ("SELECT t_id, t_balance FROM teller", &mut books.tellers),
            ("SELECT a_id, a_balance FROM account", &mut books.accounts),
        ] {
            for line in self.server.sql(sql)?.lines() {
                let [id, balance] = columns(line)?;
                balances.insert(id.cast_unsigned(), balance);
            }
        }
        let history = self.server.sql("SELECT h_b_id, h_t_id, h_a_id, h_delta FROM history")?;
        for line in history.lines() {
            let [branch, teller, account, delta] = columns(line)?;
            let [branch, teller, account] = [branch, teller, account].map(i64::cast_unsigned);
            books.add(branch, teller, account, delta);
        }
        Ok(books)
    }

    /// Bytes that the cluster takes, its log among them.
    ///
    /// # Errors
    /// They cannot be examined.
    pub fn footprint_bytes(&self) -> Result<u64, StoreError> {
        allocated_bytes(&self.directory)
    }

    /// Returns a setting of the server, as the server reports it.
    ///
    /// # Errors
    /// PostgreSQL's.
    pub fn setting(&self, name: &str) -> Result<String, StoreError> {
        Ok(self.server.sql(&format!("SHOW {name}"))?.trim().to_owned())
    }
}

/// The numbers of a row.
fn columns<const N: usize>(line: &str) -> Result<[i64; N], StoreError> {
    let numbers: Vec<i64> = line.split('|').filter_map(|column| column.parse().ok()).collect();
    numbers.try_into().map_err(|_| StoreError::engine(format!("psql printed '{line}'")))
}

/// Transactions a second, connecting left out, of what `pgbench` prints at its end.
fn rate(said: &str) -> Option<f64> {
    let line = said
        .lines()
        .find(|line| line.starts_with("tps = ") && !line.contains("including connections"))?;
    line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok()
}

/// The latency in a line of `pgbench`'s log: client, number, microseconds, script, time.
fn latency_us(line: &str) -> Option<u64> {
    line.split(' ').nth(2)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_pgbench_prints_is_read() {
        let said = "transaction type: x\nlatency average = 1.2 ms\n\
                    initial connection time = 3.1 ms\n\
                    tps = 812.345678 (without initial connection time)\n";
        assert_eq!(rate(said), Some(812.345_678));
        assert_eq!(rate("nothing"), None);
        assert_eq!(latency_us("0 199 2241 0 1175850568 995598"), Some(2241));
        assert_eq!(columns("1|-5").expect("numbers"), [1, -5]);
        assert!(columns::<2>("1|x").is_err());
    }
}
