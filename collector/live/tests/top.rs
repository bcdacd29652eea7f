//! Tests the screen of `rankscope top` without a terminal: figures, rows, keys, and the drawing in two sizes.

use rankscope_analysis::ingest::part::Last;
use rankscope_fixtures::sessions::{self, Job};
use rankscope_formats::session::{
    CounterSource, CounterSummary, Figure, LogEnding, OperationClass, RankBlame, Session,
};
use rankscope_live::top::columns::Column;
use rankscope_live::top::document::{TopDocument, TopState, schema};
use rankscope_live::top::draw::{Shown, Theme, draw, text};
use rankscope_live::top::figures::figures;
use rankscope_live::top::filter::Filter;
use rankscope_live::top::reading::{TopReader, next_read};
use rankscope_live::top::view::{Key, Panel, RowsOf, View};
use rankscope_live::window::Window;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::Color;
use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

const LAST: Last = Last {
    time_ns: Some(10_000_000_000),
    records: Some(200_000),
};

fn counter(rank: u32, name: &str, value: f64) -> CounterSummary {
    CounterSummary {
        rank,
        name: name.to_owned(),
        source: CounterSource::System,
        samples: 10,
        min: Some(value),
        mean: Some(value),
        max: Some(value),
        last: Some(value),
        growth: None,
    }
}

/// A running job with a slow rank and counters.
fn session(ranks: u32, hosts: u32) -> Session {
    let mut session = Job {
        ranks,
        steps: 40,
        slow: Some(ranks / 2),
        hosts,
    }
    .session();
    for rank in &mut session.ranks {
        rank.ending = LogEnding::Running;
    }
    session.ranks[0].in_flight = vec!["all-reduce, tag 3, on thread 4000".to_owned()];
    session.ranks[0].in_flight_for_ns = Some(12_300_000_000);
    for rank in 0..ranks {
        session.counters.push(counter(
            rank,
            "process_resident_memory_bytes",
            2e9 + f64::from(rank) * 1e6,
        ));
        session
            .counters
            .push(counter(rank, "processors_main_thread", 0.75));
        session
            .counters
            .push(counter(rank, "processors_other_threads", 0.25));
    }
    session
        .counters
        .push(counter(0, "host_available_memory_bytes", 64e9));
    session
        .counters
        .push(counter(0, "network_eth0_received_bytes_per_s", 1.2e9));
    session
        .counters
        .push(counter(0, "network_eth0_sent_bytes_per_s", 1.1e9));
    session
        .counters
        .push(counter(0, "network_lo_received_bytes_per_s", 1e3));
    session
}

fn document_of(session: Session) -> TopDocument {
    // 300 ms after the last record.
    let end_ns = session.ranks.iter().filter_map(|rank| rank.end_ns.value).max();
    let read_ns = session.axis.origin_unix_ns + end_ns.expect("records") + 300_000_000;
    let window = Window {
        session,
        instances: Vec::new(),
        taken: UNIX_EPOCH + Duration::from_nanos(read_ns.unsigned_abs()),
        cost: Duration::from_millis(33),
    };
    figures(&window, LAST, None)
}

fn document(ranks: u32, hosts: u32) -> TopDocument {
    document_of(session(ranks, hosts))
}

fn shown<'a>(document: &'a TopDocument, view: &'a View) -> Shown<'a> {
    Shown {
        document: Some(document),
        view,
        run: "shared/runs/resnet",
        age: Duration::from_millis(400),
        interval: Duration::from_secs(1),
        problem: None,
        has_keys: true,
        theme: Theme::default(),
    }
}

/// Draws into a terminal of this size, and returns its text.
fn screen(width: u16, height: u16, shown: &Shown<'_>) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
    terminal
        .draw(|frame| {
            draw(frame.area(), frame.buffer_mut(), shown);
        })
        .expect("drawn");
    terminal.backend().to_string()
}

fn names(document: &TopDocument, view: &View) -> Vec<String> {
    view.rows(document).iter().map(|row| row.name.clone()).collect()
}

fn press(view: &mut View, document: &TopDocument, keys: &str) {
    for key in keys.chars() {
        let key = match key {
            '\n' => Key::Enter,
            '\x1b' => Key::Escape,
            letter => Key::Char(letter),
        };
        view.press(key, Some(document), 5);
    }
}

#[test]
fn the_figures_are_those_of_the_session() {
    let session = session(8, 2);
    let found = document_of(session.clone());
    assert_eq!(found.ranks.len(), 8);
    assert_eq!(found.hosts.len(), 2);
    assert_eq!(found.ranks_running, 8);
    assert_eq!(found.idle_for_ns, Figure::known(300_000_000));
    assert_eq!(found.step_median_ns, session.steps.median_ns);
    let length_s = found.window.length_ns.value.expect("a length") as f64 / 1e9;
    assert_eq!(
        found.operations_per_s.value,
        Some(session.totals.operations as f64 / length_s)
    );
    for (row, entry) in found.ranks.iter().zip(&session.breakdown) {
        let exposed = row.exposed_communication.value.expect("known");
        assert_eq!(exposed.numerator, entry.exposed_communication_ns);
        assert_eq!(exposed.denominator, entry.window_ns);
        let wait = row.exposed_wait.value.expect("known");
        assert_eq!(wait.numerator, entry.exposed_wait_ns);
        let blame: Option<&RankBlame> = session.blame.ranks.iter().find(|of| of.rank == entry.rank);
        assert_eq!(
            row.caused_exposed_rank_ns,
            blame.map_or(0, |of| of.caused_exposed_rank_ns)
        );
        assert_eq!(row.processors, Figure::known(1.0));
    }
    // A host has the sums of its ranks.
    let first = &found.hosts[0];
    assert_eq!(first.ranks, 4);
    assert_eq!(first.rank_numbers, [0, 1, 2, 3]);
    assert_eq!(first.resident_memory_bytes, Figure::known(4.0 * 2e9 + 6e6));
    let link = first.busiest_link.value.as_ref().expect("a link");
    assert_eq!((link.name.as_str(), link.received_bytes_per_s), ("eth0", 1.2e9));
    let whole: i64 = found.hosts.iter().map(|row| row.caused_exposed_rank_ns).sum();
    let sum: i64 = found.ranks.iter().map(|row| row.caused_exposed_rank_ns).sum();
    assert_eq!(whole, sum);
    // The other host has no samples of its own.
    assert_eq!(found.hosts[1].busiest_link.value, None);
    let classes: Vec<&OperationClass> = session.operations.iter().collect();
    assert_eq!(found.bandwidth.len(), classes.len());
    let warned: Vec<&str> = found
        .warnings
        .iter()
        .map(|warning| warning.kind.as_str())
        .collect();
    let kinds: Vec<&str> = session
        .findings
        .iter()
        .map(|finding| finding.kind.as_str())
        .collect();
    assert_eq!(warned, kinds);
}

#[test]
fn an_unknown_figure_is_a_dash_with_its_reason_and_never_zero() {
    let found = document_of(sessions::damaged());
    assert_eq!(found.steps_per_s.value, None);
    let view = View::default();
    let text = text(160, 30, &shown(&found, &view));
    assert!(text.contains("– steps/s"), "{text}");
    assert!(text.contains("steps –: the pattern explains 61 %"), "{text}");
    assert!(text.contains("MEMORY, CPU –: no sample in the window"), "{text}");
    assert!(text.contains("40 records LOST"), "{text}");
    assert!(text.contains("4 of 8 ranks"), "{text}");
    assert!(text.contains("killed"), "{text}");
}

#[test]
fn a_rank_of_another_machine_is_not_called_killed() {
    let mut session = session(4, 2);
    for rank in &mut session.ranks {
        rank.ending = LogEnding::Torn;
    }
    session.hosts[0].boot_id = Some("here".to_owned());
    session.hosts[1].boot_id = Some("there".to_owned());
    let window = Window {
        session,
        instances: Vec::new(),
        taken: UNIX_EPOCH,
        cost: Duration::ZERO,
    };
    let found = figures(&window, LAST, Some("here"));
    let states: Vec<TopState> = found.ranks.iter().map(|row| row.state).collect();
    use TopState::{Elsewhere, Killed};
    assert_eq!(states, [Killed, Killed, Elsewhere, Elsewhere]);
}

#[test]
fn only_the_newest_attempt_is_shown() {
    let mut session = session(4, 1);
    let mut earlier = session.attempts[0].clone();
    earlier.worlds.clear();
    session.attempts.insert(0, earlier);
    for rank in &mut session.ranks[2..] {
        rank.attempt = 1;
    }
    for world in &mut session.worlds {
        world.attempt = 1;
    }
    let found = document_of(session);
    assert_eq!(found.attempt.number, 2);
    assert_eq!(found.ranks_seen, 2);
    assert_eq!(found.hosts[0].ranks, 2);
    assert!(text(110, 24, &shown(&found, &View::default())).contains("attempt 2"));
}

#[test]
fn rows_are_sorted_by_every_column_and_reversed() {
    let found = document(8, 2);
    let mut view = View::default();
    assert_eq!(names(&found, &view)[0], "rank 4");
    let mut seen = vec![view.sort];
    for _ in 1..Column::SORTABLE.len() {
        press(&mut view, &found, "s");
        seen.push(view.sort);
    }
    assert_eq!(seen, Column::SORTABLE);
    // The last one is the name: ranks are in the order of their numbers.
    let ascending: Vec<String> = (0..8).map(|rank| format!("rank {rank}")).collect();
    assert_eq!(names(&found, &view), ascending);
    press(&mut view, &found, "r");
    let descending: Vec<String> = ascending.iter().rev().cloned().collect();
    assert_eq!(names(&found, &view), descending);
    press(&mut view, &found, "s");
    assert_eq!((view.sort, view.is_reversed), (Column::Caused, false));
    press(&mut view, &found, "S");
    assert_eq!(view.sort, Column::Name);
    view.sort = Column::Memory;
    assert_eq!(names(&found, &view)[0], "rank 7");
    // Only one rank is in a call. The others have no value and are last.
    view.sort = Column::InCall;
    assert_eq!(names(&found, &view)[0], "rank 0");
    assert!(text(110, 24, &shown(&found, &view)).contains("in all-reduce, tag 3, on thread 4000, 12.3 s"));
    assert_eq!("memory".parse(), Ok(Column::Memory));
    assert!(
        "speed"
            .parse::<Column>()
            .is_err_and(|error| error.contains("caused"))
    );
}

#[test]
fn filters_select_ranks_names_hosts_and_states() {
    let found = document(8, 2);
    let shown = |text: &str| {
        let view = View {
            filter: Filter::new(text),
            sort: Column::Name,
            ..View::default()
        };
        names(&found, &view)
    };
    assert_eq!(shown("2-3,7"), ["rank 2", "rank 3", "rank 7"]);
    assert_eq!(shown(" 5 "), ["rank 5"]);
    assert_eq!(shown("rank 1"), ["rank 1"]);
    assert_eq!(shown("RUNNING").len(), 8);
    assert_eq!(shown("").len(), 8);
    assert_eq!(shown("nothing").len(), 0);
    let host = found.hosts[1].name.clone();
    assert_eq!(shown(&host), ["rank 4", "rank 5", "rank 6", "rank 7"]);
    // A host is shown for the numbers of its ranks.
    let filter = Filter::new("6");
    let hosts: Vec<bool> = found.hosts.iter().map(|row| filter.shows(row)).collect();
    assert_eq!(hosts, [false, true]);
}

#[test]
fn keys_change_the_view() {
    let found = document(8, 2);
    let mut view = View::default();
    press(&mut view, &found, "/rank 1");
    assert_eq!(names(&found, &view), ["rank 1"]);
    view.press(Key::Backspace, Some(&found), 5);
    view.press(Key::Backspace, Some(&found), 5);
    assert_eq!(names(&found, &view).len(), 8);
    // While the filter is typed, letters are no commands.
    press(&mut view, &found, "q");
    assert!(!view.is_over);
    press(&mut view, &found, "\x1b");
    assert!(view.filter.is_empty() && view.typed.is_none());
    press(&mut view, &found, "/3\n");
    assert_eq!(names(&found, &view), ["rank 3"]);
    press(&mut view, &found, "\x1b");

    press(&mut view, &found, "h");
    assert_eq!(view.rows_of(&found), RowsOf::Hosts);
    view.press(Key::Down, Some(&found), 5);
    press(&mut view, &found, "\n");
    assert_eq!(view.rows_of(&found), RowsOf::Ranks);
    assert_eq!(names(&found, &view).len(), 4);

    press(&mut view, &found, "w");
    assert_eq!(view.panel, Panel::Warnings);
    press(&mut view, &found, "w?");
    assert_eq!(view.panel, Panel::Help);
    press(&mut view, &found, "q");
    assert!(!view.is_over && view.panel == Panel::Table);
    press(&mut view, &found, "p");
    assert!(view.is_paused);
    press(&mut view, &found, "q");
    assert!(view.is_over);
    let mut view = View::default();
    view.press(Key::Interrupt, None, 5);
    assert!(view.is_over);
}

#[test]
fn the_selection_stays_on_its_row_and_on_the_screen() {
    let found = document(200, 1);
    let mut view = View {
        sort: Column::Name,
        ..View::default()
    };
    for key in [Key::End, Key::PageUp, Key::Up] {
        view.press(key, Some(&found), 5);
    }
    assert_eq!(view.selected.as_deref(), Some("rank 193"));
    let text = screen(80, 24, &shown(&found, &view));
    assert!(text.contains("rank 193  running"), "{text}");
    press(&mut view, &found, "r");
    assert_eq!(view.position(&view.rows(&found)), 6);
    // A row that disappears is replaced by the first one.
    press(&mut view, &found, "/7\n");
    assert_eq!(view.position(&view.rows(&found)), 0);
    view.press(Key::Home, Some(&found), 5);
    assert_eq!(view.selected.as_deref(), Some("rank 7"));
}

#[test]
fn hosts_come_first_on_thousands_of_ranks() {
    let found = document(4096, 512);
    let view = View::default();
    assert_eq!(view.rows_of(&found), RowsOf::Hosts);
    assert_eq!(view.rows(&found).len(), 512);
    let text = screen(80, 24, &shown(&found, &view));
    assert!(text.contains("4,096 of 4,096 ranks"), "{text}");
    assert!(text.contains(" of 512, by caused"), "{text}");
    insta::assert_snapshot!("many", text);
}

#[test]
fn the_screen_in_80_columns() {
    let found = document(8, 2);
    insta::assert_snapshot!("narrow", screen(80, 24, &shown(&found, &View::default())));
}

#[test]
fn the_screen_in_140_columns() {
    let found = document(8, 2);
    let view = View {
        rows_of: Some(RowsOf::Hosts),
        ..View::default()
    };
    insta::assert_snapshot!("wide-hosts", screen(140, 40, &shown(&found, &view)));
    insta::assert_snapshot!("wide", screen(140, 40, &shown(&found, &View::default())));
}

#[test]
fn the_warnings_and_the_help_fit_in_80_columns() {
    let found = document(8, 2);
    let of = |panel| View {
        panel,
        ..View::default()
    };
    insta::assert_snapshot!("warnings", screen(80, 24, &shown(&found, &of(Panel::Warnings))));
    let help = screen(80, 24, &shown(&found, &of(Panel::Help)));
    assert!(!help.contains('…'), "{help}");
    insta::assert_snapshot!("help", help);
}

#[test]
fn a_stuck_job_and_a_failed_read_are_stated_first() {
    let mut session = session(4, 1);
    let late_ns = 42_000_000_000;
    session.axis.origin_unix_ns -= late_ns;
    let found = {
        let end_ns = session.ranks.iter().filter_map(|rank| rank.end_ns.value).max();
        let read_ns = session.axis.origin_unix_ns + end_ns.expect("records") + late_ns;
        let window = Window {
            session,
            instances: Vec::new(),
            taken: UNIX_EPOCH + Duration::from_nanos(read_ns.unsigned_abs()),
            cost: Duration::from_millis(33),
        };
        figures(&window, LAST, None)
    };
    let view = View::default();
    let mut shown = shown(&found, &view);
    shown.age = Duration::ZERO;
    let text = screen(80, 24, &shown);
    assert!(
        text.contains("no operation completed for 42.0 s: rankscope status shared/runs/resnet"),
        "{text}"
    );
    shown.problem = Some("no space");
    assert!(screen(80, 24, &shown).contains("cannot read the run now: no space"));
}

#[test]
fn no_size_of_the_screen_is_a_problem() {
    let found = document(200, 4);
    for panel in [Panel::Table, Panel::Warnings, Panel::Help] {
        for is_typing in [false, true] {
            let view = View {
                panel,
                typed: is_typing.then(String::new),
                ..View::default()
            };
            for (width, height) in [(1, 1), (2, 3), (10, 5), (40, 12), (79, 9), (300, 100)] {
                screen(width, height, &shown(&found, &view));
            }
        }
    }
}

#[test]
fn colours_only_repeat_the_text() {
    let found = document(8, 2);
    let view = View::default();
    let colours = |has_colours: bool| {
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).expect("a terminal");
        let shown = Shown {
            theme: Theme { has_colours },
            ..shown(&found, &view)
        };
        terminal
            .draw(|frame| {
                draw(frame.area(), frame.buffer_mut(), &shown);
            })
            .expect("drawn");
        let buffer = terminal.backend().buffer().clone();
        let cells = buffer.content.iter();
        cells.filter(|cell| cell.fg != Color::Reset).count()
    };
    assert_eq!(colours(false), 0);
    assert!(colours(true) > 0);
}

#[test]
fn the_document_is_read_back_and_matches_its_schema() {
    let found = document(8, 2);
    let json = serde_json::to_string(&found).expect("serialisable");
    assert_eq!(
        serde_json::from_str::<TopDocument>(&json).expect("readable"),
        found
    );
    let schema = schema();
    let value: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let properties = schema["properties"].as_object().expect("properties");
    for name in value.as_object().expect("an object").keys() {
        let described = &properties[name];
        assert!(
            described["description"].is_string() || described["const"].is_number(),
            "{name} has no description"
        );
    }
    let mut short = found;
    short.ranks.truncate(1);
    short.hosts.truncate(1);
    insta::assert_json_snapshot!("document", short);
}

#[test]
fn a_long_read_lengthens_the_interval() {
    let second = Duration::from_secs(1);
    assert_eq!(next_read(second, Duration::from_millis(100)), second);
    assert_eq!(next_read(second, second), 3 * second);
}

#[test]
fn the_last_steps_of_synthetic_logs_have_figures_and_no_file_is_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let job = rankscope_fixtures::logs::Ddp {
        ranks: 16,
        steps: 400,
        hosts: 2,
        slow: Some((5, 200_000)),
        noise: 1,
        ..rankscope_fixtures::logs::Ddp::default()
    };
    job.write(folder.path()).expect("written");
    let before = std::fs::read_dir(folder.path()).expect("a folder").count();
    let run = vec![PathBuf::from(folder.path())];
    let mut reader = TopReader::new(run, 100_000_000, None);
    let found = reader.read().expect("readable");
    assert_eq!(found.ranks.len(), 16);
    let length_ns = found.window.length_ns.value.expect("a length");
    assert!((90_000_000..=100_000_001).contains(&length_ns), "{length_ns}");
    // A step takes 0.6 + 0.3 ms, the transfer, and the delay of the slow rank.
    let rate = found.steps_per_s.value.expect("steps");
    assert!((700.0..1_000.0).contains(&rate), "{rate}");
    let operations = found.operations_per_s.value.expect("operations");
    assert!(
        (operations / (rate * 16.0 * 3.0) - 1.0).abs() < 0.05,
        "{operations} {rate}"
    );
    let view = View {
        rows_of: Some(RowsOf::Ranks),
        ..View::default()
    };
    assert_eq!(view.rows(&found)[0].name, "rank 5");
    assert_eq!(
        std::fs::read_dir(folder.path()).expect("a folder").count(),
        before
    );
}
