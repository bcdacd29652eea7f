//! Tests sums over a selected time window, from made-up tables and indices.

use proptest::prelude::*;
use rankscope_analysis::selection::{SelectError, SelectionRequest, marks, select};
use rankscope_fixtures::sessions::{Job, structured};
use rankscope_formats::ids::{CommunicatorId, RankIndex, StepIndex};
use rankscope_formats::index::{Footer, LaneKind, Sample, Span, ViewFile, ViewWriter, part, view_path};
use rankscope_formats::session::*;
use rankscope_ranklog::Operation;
use rankscope_report::selection_rows::{Which, table_of};
use rankscope_report::selection_text;
use rankscope_report::{TextLayout, table_export};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

const RANKS: u32 = 4;
/// Members of the communicators: all ranks, ranks 0 and 1, rank 2 alone.
const MEMBERS: [&[u32]; 3] = [&[0, 1, 2, 3], &[0, 1], &[2]];
const OPERATIONS: [Operation; 4] = [
    Operation::AllReduce,
    Operation::AllGather,
    Operation::Broadcast,
    Operation::Barrier,
];

/// A session, its tables and its indices.
struct Made {
    folder: tempfile::TempDir,
    session: Session,
    views: Vec<Arc<ViewFile>>,
    instances: Vec<InstanceRow>,
    stalls: Vec<(u32, StallRow)>,
    /// For each rank, the boundaries of the parts of its time and the pieces between them.
    hosts: Vec<Vec<Span>>,
}

fn instance(number: u64, start_ns: i64, seed: u64) -> InstanceRow {
    let communicator = (seed % 3) as u32;
    let members = MEMBERS[communicator as usize].len() as u32;
    let operation = OPERATIONS[(seed / 3 % 4) as usize];
    let state = match seed / 12 % 8 {
        _ if members == 1 => InstanceState::Alone,
        0 => InstanceState::Incomplete,
        1 => InstanceState::Enqueued,
        2 => InstanceState::Template,
        _ => InstanceState::Complete,
    };
    let is_complete = state == InstanceState::Complete;
    // Some share a launch, and some of those carry its figures.
    let launch = (is_complete && (seed / 96).is_multiple_of(5)).then_some(seed % 10);
    let is_measured = is_complete && (launch.is_none() || (seed / 480).is_multiple_of(2));
    let duration_ns = (seed / 7 % 3000) as i64;
    let has_size = is_measured && operation != Operation::Barrier;
    let rate = (has_size && seed.is_multiple_of(2)).then_some((seed % 1000 + 1) as f64 * 1e6);
    InstanceRow {
        instance: number,
        communicator: CommunicatorId(communicator),
        operation,
        tag: 0,
        sequence: number as u32,
        members,
        seen: members,
        state,
        start_ns,
        end_ns: start_ns + duration_ns,
        first_arrival_ns: start_ns,
        last_arrival_ns: start_ns,
        last_rank: is_measured
            .then(|| RankIndex(MEMBERS[communicator as usize][seed as usize / 5 % members as usize])),
        size_bytes: has_size.then(|| (1 << (seed % 20)) * u64::from(members)),
        transfer_ns: is_measured.then(|| (duration_ns - (seed % 500) as i64).max(0)),
        shortest_duration: false,
        exposed_wait_rank_ns: is_measured.then_some((seed % 700) as i64),
        hidden_wait_rank_ns: is_measured.then_some((seed % 300) as i64),
        algorithm_bytes_per_s: rate,
        bus_bytes_per_s: rate,
        class: if rate.is_some() {
            WaitClass::TransferBound
        } else {
            WaitClass::Mixed
        },
        launch,
        step: None,
    }
}

fn stall(start_ns: i64, seed: u64) -> StallRow {
    StallRow {
        start_ns,
        end_ns: start_ns + 1 + (seed % 9000) as i64,
        step: seed.is_multiple_of(2).then_some(StepIndex(7)),
        communication_ns: 0,
        memory_ns: 0,
        compute_ns: 0,
        not_launched_ns: None,
        wait_ns: (seed % 100) as i64,
        slow_transfer_ns: 0,
        late_rank: seed.is_multiple_of(3).then_some(RankIndex(2)),
        cause: StallCause::ALL[(seed / 9000) as usize % StallCause::ALL.len()],
    }
}

fn activity(rank: u32, stalls: u64) -> DeviceActivity {
    let unknown = serde_json::json!({ "value": null, "reason": "made up" });
    serde_json::from_value(serde_json::json!({
        "rank": rank, "cupti": "12.9", "reason": null, "streams": [], "kernels": 1, "communication_kernels": 0,
        "copies": 0, "sets": 0, "graphs": 0, "lost": 0, "with_launch": 0, "launches_without_work": 0,
        "without_call": 0, "covered_ns": 1000, "covered_communication_ns": 1000, "yielded_ns": 0,
        "delivered_until_ns": null, "shortest_launch_ns": unknown, "shortest_wait_ns": unknown, "window": "run",
        "window_ns": 1000, "compute_only_ns": 0, "overlapped_ns": 0, "exposed_communication_ns": 0,
        "exposed_wait_ns": 0, "exposed_memory_ns": 0, "idle_ns": 1000, "overlap": unknown, "idle_by_cause": [],
        "device_stalls": { "count": stalls, "ns": 0, "by_cause": [], "by_late_rank": [] },
        "top": [], "adds_up": true,
    }))
    .expect("as it is written")
}

/// Returns pieces of time without gaps, with the classes of a device or of a host.
fn pieces(start_ns: i64, lengths: &[i64], of_device: bool) -> Vec<Span> {
    let mut start_ns = start_ns;
    let classes: [u8; 4] = if of_device {
        [
            part::OWN,
            part::EXPOSED_TRANSFER,
            part::EXPOSED_MEMORY,
            part::IDLE,
        ]
    } else {
        [
            part::OWN,
            part::OVERLAPPED,
            part::EXPOSED_WAIT,
            part::OTHER_BLOCKED,
        ]
    };
    let piece = |&length: &i64| {
        let span = Span {
            start_ns,
            end_ns: start_ns + length,
            class: classes[length as usize % 4],
            ..Span::default()
        };
        start_ns = span.end_ns;
        span
    };
    lengths.iter().map(piece).collect()
}

fn made(events: &[(i64, u64)], lengths: &[i64]) -> Made {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut session = Job::new(RANKS, 3).session();
    let pattern = session.communicators[0].clone();
    session.communicators = (0..)
        .zip(MEMBERS)
        .map(|(index, members)| CommunicatorSummary {
            index,
            size: members.len() as u32,
            members: members.iter().map(|&rank| Some(rank)).collect(),
            ..pattern.clone()
        })
        .collect();
    let limits = RowLimits {
        per_group: 16,
        held: 8,
    };
    let instances: Vec<InstanceRow> = (0..)
        .zip(events)
        .map(|(number, &(start, seed))| instance(number, start, seed))
        .collect();
    let path = part_path::<InstanceRow>(folder.path());
    let mut writer = TableWriter::create(&path, limits).expect("create");
    // Each separate write ends a row group.
    for rows in instances.chunks(20) {
        writer.write(&mut rows.to_vec()).expect("write");
    }
    writer.finish().expect("finish");
    let groups = RowGroups::<InstanceRow>::open(&path).expect("open");
    assert!(groups.count() >= events.len() / 40);
    // Devices of two ranks were recorded. The second one never stalled.
    let stalls: Vec<(u32, StallRow)> = events
        .iter()
        .map(|&(start, seed)| (0, stall(start, seed)))
        .collect();
    let mut writer = TableWriter::create(&rank_path::<StallRow>(folder.path(), 0), limits).expect("create");
    for stalls in stalls.chunks(20) {
        writer
            .write(&mut stalls.iter().map(|(_, row)| row.clone()).collect())
            .expect("write");
    }
    writer.finish().expect("finish");
    session.activity = vec![activity(0, stalls.len() as u64), activity(1, 0)];
    let pattern = structured().counters[0].clone();
    session.counters = (0..RANKS)
        .map(|rank| CounterSummary {
            rank,
            name: "queue_bytes".to_owned(),
            ..pattern.clone()
        })
        .collect();
    let mut hosts = Vec::new();
    let views = (0..RANKS)
        .map(|rank| {
            let path = view_path(folder.path(), rank);
            let mut writer = ViewWriter::create(&path).expect("create");
            let of_device = writer.lane(LaneKind::Parts { device: true }, 0);
            let of_host = writer.lane(LaneKind::Parts { device: false }, 0);
            let of_another = writer.lane(LaneKind::Parts { device: false }, 1);
            let host = pieces(i64::from(rank) * 100, lengths, false);
            for span in &host {
                writer.push(of_host, *span).expect("push");
            }
            writer.push(of_another, host[0]).expect("push");
            for span in pieces(i64::from(rank) * 50, lengths, true) {
                writer.push(of_device, span).expect("push");
            }
            let counter = writer.counter("queue_bytes", 20_000);
            for at_ns in [-1000, 500, 2500] {
                let value = f64::from(rank);
                writer.sample(counter, Sample { at_ns, value }).expect("a sample");
            }
            hosts.push(host);
            writer
                .finish(Footer {
                    rank,
                    ..Footer::default()
                })
                .expect("finish");
            Arc::new(ViewFile::open(&path).expect("open"))
        })
        .collect();
    Made {
        folder,
        session,
        views,
        instances,
        stalls,
        hosts,
    }
}

impl Made {
    fn directory(&self) -> &Path {
        self.folder.path()
    }

    fn select(
        &self,
        window: (i64, i64),
        ranks: Option<&BTreeSet<RankIndex>>,
    ) -> Result<Selection, SelectError> {
        let request = SelectionRequest {
            window,
            ranks,
            cancelled: &AtomicBool::new(false),
        };
        let view = |rank: RankIndex| self.views.get(rank.index()).cloned();
        select(self.directory(), &self.session, &view, request)
    }

    fn selected(&self, window: (i64, i64)) -> Selection {
        self.select(window, None).expect("a selection")
    }
}

/// Returns all counts and sums by name. They must be the same for the whole as for its parts together.
fn sums(of: &Selection) -> BTreeMap<String, i128> {
    let mut sums = BTreeMap::new();
    let mut add = |name: String, value: i128| *sums.entry(name).or_default() += value;
    let totals = &of.totals;
    add("instances".into(), totals.instances.into());
    add("complete".into(), totals.complete.into());
    add("bytes".into(), totals.size_bytes.value.unwrap_or(0).into());
    add(
        "exposed".into(),
        totals.exposed_wait_rank_ns.value.unwrap_or(0).into(),
    );
    add(
        "hidden".into(),
        totals.hidden_wait_rank_ns.value.unwrap_or(0).into(),
    );
    for class in &of.operations {
        let name = format!(
            "{} {:?} {} {} ",
            class.operation, class.size_from_bytes, class.members, class.launches
        );
        for (what, count) in [
            ("instances", class.instances),
            ("complete", class.complete),
            ("enqueued", class.enqueued),
            ("not matched", class.not_matched),
            ("shared", class.shared),
            ("invalid", class.bandwidth_invalid),
            ("bytes", class.size_bytes.value.unwrap_or(0)),
            ("transfer bound", class.classes.transfer_bound),
            ("bus", class.bus_bytes_per_s.value.map_or(0, |of| of.count)),
            (
                "transfer",
                class.transfer_ns.value.map_or(0, |of| of.sum as u64 + of.count),
            ),
            (
                "duration",
                class.duration_ns.value.map_or(0, |of| of.sum as u64 + of.count),
            ),
        ] {
            add(name.clone() + what, count.into());
        }
        add(
            name.clone() + "exposed",
            class.exposed_wait_rank_ns.value.unwrap_or(0).into(),
        );
        add(
            name.clone() + "hidden",
            class.hidden_wait_rank_ns.value.unwrap_or(0).into(),
        );
        // A window without a transfer has a histogram of durations.
        if let Some(times) = class.histogram.value.as_ref().filter(|of| of.of == "transfer") {
            for bin in &times.bins {
                add(format!("{name}{}", bin.from_ns), bin.count.into());
            }
        }
    }
    for entry in &of.parts {
        let Some(parts) = &entry.parts.value else { continue };
        assert!(parts.adds_up);
        for (what, ns) in [
            ("window", parts.window_ns),
            ("own", parts.own_ns),
            ("overlapped", parts.overlapped_ns),
            ("exposed transfer", parts.exposed_transfer_ns),
            (
                "exposed wait",
                parts.exposed_wait_ns.value.expect("waits are known"),
            ),
            ("memory", parts.exposed_memory_ns.value.unwrap_or(0)),
            ("idle", parts.idle_ns.value.unwrap_or(0)),
            ("other", parts.other_blocked_ns.value.unwrap_or(0)),
        ] {
            add(format!("{} {} {what}", entry.rank, entry.level), ns.into());
        }
    }
    let stalls = of
        .stalls
        .value
        .as_ref()
        .expect("two ranks' devices were recorded");
    assert_eq!(stalls.of_ranks, 2);
    for cause in &stalls.by_cause {
        add(format!("{} count", cause.cause), cause.count.into());
        add(format!("{} ns", cause.cause), cause.ns.into());
    }
    for rank in &of.lateness {
        add(format!("{} last", rank.rank), rank.last_arrivals.into());
        add(
            format!("{} launches", rank.rank),
            rank.launches.value.expect("no messages").into(),
        );
        add(
            format!("{} where last", rank.rank),
            rank.exposed_wait_where_last_rank_ns.into(),
        );
        add(
            format!("{} waited", rank.rank),
            rank.exposed_wait_ns.value.unwrap_or(0).into(),
        );
    }
    sums.retain(|_, sum| *sum != 0);
    sums
}

fn events() -> impl Strategy<Value = Vec<(i64, u64)>> {
    proptest::collection::vec((-2_000i64..20_000, 0u64..1 << 40), 0..300)
}

fn lengths() -> impl Strategy<Value = Vec<i64>> {
    proptest::collection::vec(1i64..400, 1..200)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn windows_side_by_side_add_up(
        events in events(),
        lengths in lengths(),
        mut cuts in proptest::collection::vec(-3_000i64..40_000, 2..8),
    ) {
        cuts.sort_unstable();
        let made = made(&events, &lengths);
        let whole = sums(&made.selected((cuts[0], cuts[cuts.len() - 1])));
        let mut together: BTreeMap<String, i128> = BTreeMap::new();
        for pair in cuts.windows(2) {
            for (name, value) in sums(&made.selected((pair[0], pair[1]))) {
                *together.entry(name).or_default() += value;
            }
        }
        prop_assert_eq!(whole, together);
    }

    #[test]
    fn a_window_has_the_operations_that_start_in_it(
        events in events(),
        lengths in lengths(),
        from in -3_000i64..25_000,
        length in 1i64..30_000,
    ) {
        let made = made(&events, &lengths);
        let to = from + length;
        let selection = made.selected((from, to));
        let inside: Vec<&InstanceRow> = made
            .instances
            .iter()
            .filter(|row| (from..to).contains(&row.start_ns) && row.state != InstanceState::Template)
            .collect();
        let totals = &selection.totals;
        prop_assert_eq!(totals.instances, inside.len() as u64);
        let bytes: u64 = inside.iter().filter_map(|row| row.size_bytes).sum();
        prop_assert_eq!(totals.size_bytes.value.unwrap_or(0), bytes);
        let exposed: i64 = inside.iter().filter_map(|row| row.exposed_wait_rank_ns).sum();
        prop_assert_eq!(totals.exposed_wait_rank_ns.value.unwrap_or(0), exposed);
        let single = selection.operations.iter().filter(|class| !class.launches);
        prop_assert_eq!(single.map(|class| class.instances).sum::<u64>(), totals.instances);
        let last = |rank| inside.iter().filter(|row| row.last_rank == Some(rank)).count() as u64;
        for entry in &selection.lateness {
            prop_assert_eq!(entry.last_arrivals, last(RankIndex(entry.rank)));
        }
        let slowest = selection.operations.iter().filter_map(|class| class.slowest);
        let longest = inside.iter().filter_map(|row| row.transfer_ns.filter(|&ns| ns > 0)).max();
        prop_assert_eq!(slowest.map(|slowest| slowest.transfer_ns).max(), longest);
        let stalls = selection.stalls.value.expect("devices were recorded");
        let started = || made.stalls.iter().filter(|(_, row)| (from..to).contains(&row.start_ns));
        prop_assert_eq!(stalls.count, started().count() as u64);
        prop_assert_eq!(stalls.longest.len(), started().count().min(Selection::MAX_STALLS));
        prop_assert_eq!(
            stalls.longest.first().map(|stall| stall.end_ns - stall.start_ns),
            started().map(|(_, row)| row.end_ns - row.start_ns).max()
        );
        for (rank, host) in made.hosts.iter().enumerate() {
            let of_host = selection.parts.iter().find(|parts| parts.rank == rank as u32 && parts.level == "host");
            let waited: i64 = host
                .iter()
                .filter(|span| span.class == part::EXPOSED_WAIT)
                .map(|span| (span.end_ns.min(to) - span.start_ns.max(from)).max(0))
                .sum();
            let reported = of_host.and_then(|entry| entry.parts.value.as_ref());
            prop_assert_eq!(reported.map_or(0, |parts| parts.exposed_wait_ns.value.unwrap_or(0)), waited);
        }
    }

    #[test]
    fn a_bin_marks_as_many_as_it_counts(events in events(), from in -3_000i64..20_000, most in 0usize..20) {
        let made = made(&events, &[5]);
        let window = (from, from + 5_000);
        let cancelled = AtomicBool::new(false);
        let request = SelectionRequest { window, ranks: None, cancelled: &cancelled };
        for class in &made.selected(window).operations {
            let Some(times) = &class.histogram.value else { continue };
            for bin in &times.bins {
                let range = bin.from_ns..bin.below_ns;
                let found = marks(made.directory(), &made.session, class, range, most, request).expect("marks");
                prop_assert_eq!(found.total, bin.count);
                prop_assert_eq!(found.list.len(), most.min(bin.count as usize));
                prop_assert!(found.list.is_sorted_by_key(|mark| mark.start_ns));
            }
        }
    }
}

#[test]
fn a_selection_of_ranks_counts_only_their_operations() {
    let events: Vec<(i64, u64)> = (0..300).map(|at| (at, at as u64 * 97)).collect();
    let made = made(&events, &[10, 20, 30]);
    let ranks = BTreeSet::from([RankIndex(2)]);
    let selection = made.select((0, 1_000), Some(&ranks)).expect("a selection");
    assert_eq!(selection.of_ranks, Some(vec![2]));
    assert!(selection.parts.iter().all(|entry| entry.rank == 2));
    assert_eq!(selection.lateness.len(), 1);
    // The communicator of ranks 0 and 1 does not include rank 2.
    let mine = made
        .instances
        .iter()
        .filter(|row| row.communicator != CommunicatorId(1) && row.state != InstanceState::Template);
    assert_eq!(selection.totals.instances, mine.count() as u64);
    // The devices of this rank were not recorded.
    assert!(selection.stalls.value.is_none() && selection.stalls.reason.is_some());
}

#[test]
fn unknown_figures_have_a_reason() {
    let made = made(&[], &[10]);
    let request = SelectionRequest {
        window: (0, 100),
        ranks: None,
        cancelled: &AtomicBool::new(false),
    };
    let selection = select(made.directory(), &made.session, &|_| None, request).expect("a selection");
    assert_eq!(selection.parts.len(), RANKS as usize);
    assert!(
        selection
            .parts
            .iter()
            .all(|entry| entry.parts.value.is_none() && entry.parts.reason.is_some())
    );
    assert!(
        selection
            .lateness
            .iter()
            .all(|entry| entry.exposed_wait_ns.reason.is_some())
    );
    // A window after everything that was recorded.
    let later = made.selected((1_000_000, 2_000_000));
    assert!(later.parts.iter().all(|entry| entry.parts.value.is_none()));
    assert!(later.adds_up());
}

#[test]
fn shown_and_exported_rows_have_a_cell_per_heading() {
    let events: Vec<(i64, u64)> = (0..300).map(|at| (at * 10, at as u64 * 977_123)).collect();
    let made = made(&events, &[100, 201, 302, 403]);
    let selection = made.selected((0, 3_000));
    for which in Which::ALL {
        let table = table_of(&selection, &made.session, which);
        assert!(!table.rows.is_empty(), "{which:?}");
        assert!(table.rows.iter().all(|row| row.len() == table.headings.len()));
        let csv = table_export::csv(&table).expect("as it can be written");
        assert_eq!(csv.lines().count(), table.rows.len() + 1);
        // Machine-readable cells have no units.
        assert!(!csv.contains(" ms") && !csv.contains('–'), "{csv}");
        assert!(table_export::markdown(&table).lines().count() > table.rows.len() + 1);
    }
    let text = selection_text(&selection, &made.session, &TextLayout::plain(110));
    assert!(text.lines().all(|line| line.chars().count() <= 110), "{text}");
    for which in Which::ALL {
        assert!(text.contains(which.title()), "{text}");
    }
    let json = serde_json::to_string(&selection).expect("as JSON");
    let back: Selection = serde_json::from_str(&json).expect("as it was written");
    assert_eq!(back.totals, selection.totals);
}

#[test]
fn a_superseded_selection_ends() {
    let made = made(&[(0, 0)], &[10]);
    let request = SelectionRequest {
        window: (0, 100),
        ranks: None,
        cancelled: &AtomicBool::new(true),
    };
    let selected = select(made.directory(), &made.session, &|_| None, request);
    assert!(matches!(selected, Err(SelectError::Cancelled)));
}
