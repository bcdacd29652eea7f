use super::*;
use crate::model::{Action, State, ViewState};
use crate::panels::test_support::{Made, keep, of};
use egui::{Key, Role, vec2};
use egui_kittest::Harness;
use egui_kittest::kittest::Queryable;
use rankscope_fixtures::sessions::Job;
use rankscope_formats::ids::RankIndex;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

const MS: i64 = 1_000_000;

fn settle(notes: &mut Notes) {
    let begin = Instant::now();
    while notes.is_saving() {
        assert!(begin.elapsed() < Duration::from_secs(30), "not saved in time");
        thread::sleep(Duration::from_millis(1));
        notes.poll();
    }
}

fn load(session: &Path) -> Notes {
    Notes::load(session, || ())
}

fn session() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let session = folder.path().join("session");
    fs::create_dir(&session).expect("made");
    (folder, session)
}

fn texts(notes: &Notes) -> Vec<&str> {
    notes.all().iter().map(|note| note.text.as_str()).collect()
}

#[test]
fn notes_survive_a_reload() {
    let (run, session) = session();
    let mut notes = load(&session);
    assert_eq!(notes.path().file_name().expect("a name"), "view-notes.json");
    let late = notes
        .add(Window::between(500 * MS, 600 * MS), Some(RankIndex(3)), "late")
        .expect("added");
    let early = notes
        .add(Window::between(100 * MS, 200 * MS), None, "")
        .expect("added");
    assert_ne!(late, early);
    let gone = notes
        .add(Window::between(300 * MS, 400 * MS), None, "gone")
        .expect("added");
    notes.edit(late, "late: GC \"pause\" …").expect("edited");
    assert_eq!(
        notes.remove(gone).expect("removed").expect("it was there").text,
        "gone"
    );
    // Changes are visible at once, in the order of time.
    assert_eq!(texts(&notes), ["", "late: GC \"pause\" …"]);
    // After the drop, everything is on the disk.
    drop(notes);
    assert!(run.path().join("view-notes.json").is_file(), "beside the session");
    let again = load(&session);
    assert_eq!(again.read_only(), None);
    assert_eq!(texts(&again), ["", "late: GC \"pause\" …"]);
    let marks: Vec<(Window, &str)> = again.marks().collect();
    assert_eq!(
        marks[1],
        (Window::between(500 * MS, 600 * MS), "late: GC \"pause\" …")
    );
    assert_eq!(again.all()[1].rank, Some(RankIndex(3)));
    let left: Vec<_> = fs::read_dir(run.path()).expect("read").collect();
    assert_eq!(left.len(), 2, "nothing unfinished is left: {left:?}");
}

#[test]
fn a_session_without_a_run_directory_contains_its_notes() {
    let folder = tempfile::tempdir().expect("a folder");
    let session = folder.path().join("merged-on-monday");
    fs::create_dir(&session).expect("made");
    let mut notes = load(&session);
    notes.add(Window::between(0, 100), None, "x").expect("added");
    drop(notes);
    assert!(session.join("view-notes.json").is_file());
}

#[test]
fn a_damaged_file_is_reported_and_kept() {
    let (run, session) = session();
    let path = run.path().join("view-notes.json");
    for (bytes, offset) in [
        // The parser notices the missing comma at the next quote.
        (
            &b"{\n  \"version\": 1,\n  \"notes\": [{\"id\": 1 \"from_ns\": 0}]\n}"[..],
            39,
        ),
        (&b"{\"version\": 1, \"notes\": \"\xff\"}"[..], 25),
        (&b""[..], 0),
        (
            &b"{\"version\": 1, \"notes\": [{\"id\": 1, \"from_ns\": 0, \"to_ns\": 9}]}"[..],
            0,
        ),
        (&b"{\"version\": 99, \"notes\": {}}"[..], 0),
    ] {
        fs::write(&path, bytes).expect("written");
        let mut notes = load(&session);
        let reason = notes.read_only().expect("read-only").to_owned();
        assert!(reason.contains("view-notes.json"), "{reason}");
        if offset > 0 {
            assert!(reason.contains(&format!("byte {offset}:")), "{reason}");
        }
        let refused = notes.add(Window::between(0, 100), None, "x");
        assert!(matches!(refused, Err(ChangeError::ReadOnly(_))));
        assert!(notes.edit(1, "y").is_err() && notes.remove(1).is_err());
        drop(notes);
        assert_eq!(fs::read(&path).expect("there"), bytes, "as it was");
    }
}

#[test]
fn a_file_damaged_later_is_kept() {
    let (run, session) = session();
    let path = run.path().join("view-notes.json");
    let mut notes = load(&session);
    notes.add(Window::between(0, 100), None, "first").expect("added");
    settle(&mut notes);
    fs::write(&path, b"{\"version\": 1, \"no").expect("written");
    notes.add(Window::between(0, 100), None, "second").expect("taken");
    settle(&mut notes);
    let reason = notes.not_saved().expect("not saved");
    assert!(reason.contains("view-notes.json, byte "), "{reason}");
    assert_eq!(fs::read(&path).expect("there"), b"{\"version\": 1, \"no");
}

/// A change that could not be written is written together with the next one.
#[test]
fn a_note_that_could_not_be_written_is_not_lost() {
    let (run, session) = session();
    let mut notes = load(&session);
    // The run is temporarily elsewhere, like a disk that is not mounted.
    let elsewhere = run.path().with_extension("elsewhere");
    fs::rename(run.path(), &elsewhere).expect("moved");
    notes
        .add(Window::between(100 * MS, 200 * MS), None, "first")
        .expect("taken");
    settle(&mut notes);
    assert!(notes.not_saved().is_some());
    assert_eq!(texts(&notes), ["first"]);
    fs::rename(&elsewhere, run.path()).expect("moved back");
    notes
        .add(Window::between(300 * MS, 400 * MS), None, "second")
        .expect("taken");
    settle(&mut notes);
    assert_eq!(notes.not_saved(), None);
    assert_eq!(texts(&notes), ["first", "second"]);
    assert_eq!(texts(&load(&session)), ["first", "second"]);
}

#[test]
fn two_viewers_do_not_undo_each_other() {
    let (_run, session) = session();
    let (mut one, mut other) = (load(&session), load(&session));
    one.add(Window::between(0, 100), None, "of one").expect("added");
    settle(&mut one);
    other
        .add(Window::between(200, 300), None, "of the other")
        .expect("added");
    settle(&mut other);
    assert_eq!(texts(&other), ["of one", "of the other"]);
    assert_eq!(texts(&load(&session)), ["of one", "of the other"]);
}

#[test]
fn time_ranges_of_notes_can_be_shown() {
    let (run, session) = session();
    let text = r#"{"version": 1, "notes": [
        {"id": 2, "from_ns": 900, "to_ns": 100, "rank": null, "text": "turned round"},
        {"id": 1, "from_ns": 5, "to_ns": 5, "rank": 4000000000, "text": "empty"}]}"#;
    fs::write(run.path().join("view-notes.json"), text).expect("written");
    let notes = load(&session);
    assert_eq!(texts(&notes), ["empty", "turned round"]);
    assert!(notes.marks().all(|(at, _)| at.length_ns() > 0));
}

struct Shown {
    panel: NotesPanel,
    notes: Notes,
    made: Made,
    state: State,
    actions: Vec<Action>,
}

fn shown() -> Shown {
    let made = of(Job::new(4, 10).session());
    Shown {
        panel: NotesPanel::default(),
        notes: load(&made.opened.path),
        state: made.state(),
        made,
        actions: Vec::new(),
    }
}

fn harness<'a>(shown: Shown) -> Harness<'a, Shown> {
    let mut harness = Harness::builder().with_size(vec2(700.0, 300.0)).build_ui_state(
        |ui, shown: &mut Shown| {
            let opened = shown.made.opened.clone();
            shown
                .panel
                .show(ui, &mut shown.notes, &opened, &shown.state, &mut shown.actions);
        },
        shown,
    );
    harness.run();
    harness
}

#[test]
fn a_note_is_added_shown_edited_removed_and_restored() {
    let mut shown = shown();
    shown
        .state
        .apply(Action::Select(Some(Window::between(100 * MS, 300 * MS))), 0.0);
    shown.state.rank = Some(RankIndex(2));
    let mut harness = harness(shown);
    let field = harness.get_by_role(Role::TextInput);
    field.focus();
    harness.run();
    harness.get_by_role(Role::TextInput).type_text("slow here");
    harness.run();
    harness.key_press(Key::Enter);
    harness.run();
    assert_eq!(texts(&harness.state().notes), ["slow here"]);
    assert_eq!(harness.state().notes.all()[0].rank, Some(RankIndex(2)));
    let at = harness.state().notes.all()[0].at;
    assert_eq!(at, Window::between(100 * MS, 300 * MS));

    harness.get_by_label_contains("0.1").click();
    harness.run();
    let expected = [
        Action::Show(at.with_margin(0.25)),
        Action::Rank(Some(RankIndex(2))),
    ];
    assert_eq!(harness.state().actions, expected);

    harness.get_by_label("Edit").click();
    harness.run();
    harness.run();
    let field = harness.get_all_by_role(Role::TextInput).last().expect("a field");
    assert!(field.is_focused());
    field.type_text("!");
    harness.run();
    harness.key_press(Key::Enter);
    harness.run();
    assert_eq!(texts(&harness.state().notes).len(), 1);
    assert!(
        texts(&harness.state().notes)[0].contains('!'),
        "{:?}",
        texts(&harness.state().notes)
    );

    harness.get_by_label("Remove").click();
    harness.run();
    assert!(harness.state().notes.all().is_empty());
    harness.get_by_label("Undo").click();
    harness.run();
    assert_eq!(harness.state().notes.all().len(), 1);
}

#[test]
fn the_panel_reports_a_damaged_file_and_does_not_change_it() {
    let mut shown = shown();
    let path = shown.made.run().join("view-notes.json");
    fs::write(&path, b"[").expect("written");
    shown.notes = load(&shown.made.opened.path);
    let harness = harness(shown);
    harness.get_by_label_contains("Notes cannot be changed");
    assert!(harness.query_by_label("Add note").is_none());
}

#[test]
fn only_visible_lines_of_a_long_list_are_drawn() {
    let mut shown = shown();
    shown.notes.notes = (0..100_000)
        .map(|id| Note {
            id,
            at: Window::between(id as i64 * MS, id as i64 * MS + MS),
            rank: None,
            text: format!("note {id}"),
        })
        .collect();
    let harness = harness(shown);
    let drawn = harness.query_all_by_label_contains("note ").count();
    assert!(drawn > 3 && drawn < 30, "{drawn}");
}

#[test]
fn pictures() {
    let mut shown = shown();
    shown.state = State::new(Window::between(0, 12_000 * MS), ViewState::default());
    for (from, length, rank, text) in [
        (1_250, 121, Some(2), "first slow step: rank 2 loads its cache"),
        (3_000, 2_400, None, ""),
        (
            4_812,
            3,
            Some(0),
            "garbage collection, 3 ms; every 100 steps; asked the team about gc.freeze() before the loop",
        ),
        (11_020, 900, None, "checkpoint"),
    ] {
        let at = Window::between(from * MS, (from + length) * MS);
        shown.notes.add(at, rank.map(RankIndex), text).expect("added");
    }
    settle(&mut shown.notes);
    keep("notes", vec2(620.0, 220.0), |ui| {
        let opened = shown.made.opened.clone();
        shown
            .panel
            .show(ui, &mut shown.notes, &opened, &shown.state, &mut shown.actions);
        true
    });
}
