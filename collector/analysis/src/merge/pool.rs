//! Threads that decode rank logs and write tables, so that the matching thread only matches.
//!
//! The task of each rank is either at home (with the matching thread) or away (being advanced). One batch per rank is
//! read ahead, so memory depends on the number of ranks and not on the size of their logs.

use crate::merge::rank_tables::RankTables;
use crate::merge::tables::{TableSizes, TablesFolder};
use crate::rank::{RankBatch, RankReader};
use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::{OperationRow, RowLimits, TableError, TableWriter};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

/// Reader, batch and tables of one rank.
pub struct RankTask<'a> {
    /// Index of the rank in the session.
    pub rank: RankIndex,
    /// Reader of its log.
    pub reader: RankReader<'a>,
    /// Result of the last advance.
    pub batch: RankBatch,
    /// Rows that the next advance writes.
    pub rows: Vec<OperationRow>,
    /// True once the log is read.
    pub ended: bool,
    operations: TableWriter<OperationRow>,
    tables: RankTables,
}

impl<'a> RankTask<'a> {
    /// Creates a task at the start of a log, and its tables.
    pub fn new(
        rank: RankIndex,
        reader: RankReader<'a>,
        folder: &TablesFolder,
        limits: RowLimits,
    ) -> Result<Self, TableError> {
        Ok(Self {
            rank,
            reader,
            batch: RankBatch::default(),
            rows: Vec::new(),
            ended: false,
            operations: folder.of_rank(rank, limits)?,
            tables: RankTables::create(folder, rank, limits)?,
        })
    }

    fn advance(&mut self) -> Result<(), TableError> {
        self.operations.write(&mut self.rows)?;
        if self.ended {
            self.batch = RankBatch::default();
            return Ok(());
        }
        self.ended = !self.reader.advance(&mut self.batch);
        self.tables.write(&mut self.batch)
    }

    /// Writes the remaining rows and ends the tables.
    pub fn finish(mut self, sizes: &mut TableSizes) -> Result<(), TableError> {
        self.operations.write(&mut self.rows)?;
        sizes.finish(self.operations)?;
        self.tables.finish(sizes)
    }
}

type Returned<'a> = (Box<RankTask<'a>>, Result<(), TableError>);

/// The threads and the tasks.
pub struct Pool<'a> {
    jobs: Option<Sender<Box<RankTask<'a>>>>,
    returned: Receiver<Returned<'a>>,
    home: Vec<Option<Box<RankTask<'a>>>>,
}

impl<'a> Pool<'a> {
    /// Starts threads in a scope and sends all tasks to them.
    pub fn start<'scope>(
        scope: &'scope std::thread::Scope<'scope, '_>,
        threads: usize,
        tasks: Vec<RankTask<'a>>,
    ) -> Self
    where
        'a: 'scope,
    {
        let (jobs, work) = channel::<Box<RankTask<'a>>>();
        let (done, returned) = channel::<Returned<'a>>();
        let work = Arc::new(Mutex::new(work));
        for _ in 0..threads.max(1) {
            let (work, done) = (Arc::clone(&work), done.clone());
            scope.spawn(move || {
                loop {
                    // A poisoned lock would mean that another worker panicked while waiting, which cannot happen. In
                    // any case, no work remains.
                    let job = work.lock().ok().and_then(|work| work.recv().ok());
                    let Some(mut task) = job else {
                        return;
                    };
                    let outcome = task.advance();
                    if done.send((task, outcome)).is_err() {
                        return;
                    }
                }
            });
        }
        let mut pool = Self {
            jobs: Some(jobs),
            returned,
            home: Vec::new(),
        };
        pool.home.resize_with(tasks.len(), || None);
        for task in tasks {
            pool.send(Box::new(task));
        }
        pool
    }

    /// Sends a task to be advanced.
    pub fn send(&mut self, task: Box<RankTask<'a>>) {
        // Workers live as long as the pool: they end when this sender is dropped.
        let refused = match &self.jobs {
            Some(jobs) => jobs.send(task).err().map(|error| error.0),
            None => Some(task),
        };
        if let Some(task) = refused {
            self.put_home(task);
        }
    }

    fn put_home(&mut self, task: Box<RankTask<'a>>) {
        let rank = task.rank.index();
        if let Some(slot) = self.home.get_mut(rank) {
            *slot = Some(task);
        }
    }

    /// Keeps a task at home. Its log is read, and there is nothing to write.
    pub fn keep(&mut self, task: Box<RankTask<'a>>) {
        self.put_home(task);
    }

    /// Takes a rank's task and waits until it returns. Returns `None` if its worker ended, which only a panic can
    /// cause.
    pub fn fetch(&mut self, rank: RankIndex) -> Result<Option<Box<RankTask<'a>>>, TableError> {
        loop {
            if let Some(task) = self.home.get_mut(rank.index()).and_then(Option::take) {
                return Ok(Some(task));
            }
            let Ok((task, outcome)) = self.returned.recv() else {
                return Ok(None);
            };
            outcome?;
            self.put_home(task);
        }
    }
}
