use super::*;
use crate::model::{PickedInstance, Window};
use crate::panels::test_support::{Made, Stage, keep, of};
use egui::Key;
use egui_kittest::Harness;
use egui_kittest::kittest::Queryable;
use rankscope_fixtures::sessions::{self, Job};
use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::Severity;

const MS: i64 = 1_000_000;

fn harness<'a>(made: Made) -> Harness<'a, Stage<FindingsPanel>> {
    let stage = Stage::of(FindingsPanel::default(), made);
    let mut harness = Harness::builder().with_size(vec2(420.0, 700.0)).build_ui_state(
        |ui, stage: &mut Stage<FindingsPanel>| {
            let opened = stage.made.opened.clone();
            stage.panel.show(ui, &opened, &stage.state, &mut stage.actions);
        },
        stage,
    );
    harness.run();
    harness
}

fn slow() -> Made {
    let mut job = Job::new(8, 40);
    job.slow = Some(3);
    let mut session = job.session();
    session.findings[0].look_at[0].instance = Some(77);
    of(session)
}

const MOMENT: &str = "Step 1 at 2.00 s: rank 3 is 20.4 ms late (instance 77)";

#[test]
fn a_moment_of_a_finding_is_shown_on_its_rank() {
    let mut harness = harness(slow());
    harness.get_by_label(MOMENT).click();
    harness.run();
    let (from_ns, to_ns) = (2_000 * MS, 2_121 * MS);
    let picked = PickedInstance {
        instance: 77,
        communicator: None,
        from_ns,
        to_ns,
    };
    let expected = [
        Action::Show(Window::between(from_ns, to_ns).with_margin(0.25)),
        Action::Rank(Some(RankIndex(3))),
        Action::Pick(Some(picked)),
    ];
    assert_eq!(harness.state().actions, expected);
    harness.state_mut().actions.clear();
    harness.get_by_label("rank 3").click();
    harness.run();
    assert_eq!(harness.state().actions, [Action::Rank(Some(RankIndex(3)))]);
}

#[test]
fn keys_alone_open_a_finding_and_go_to_its_moment() {
    let mut harness = harness(slow());
    // The first finding is open. Tab reaches its head first, then its time.
    harness.key_press(Key::Tab);
    harness.run();
    harness.key_press(Key::Enter);
    harness.run();
    assert!(harness.query_by_label(MOMENT).is_none(), "closed");
    harness.key_press(Key::Space);
    harness.run();
    assert!(harness.query_by_label(MOMENT).is_some(), "open again");
    harness.key_press(Key::Tab);
    harness.run();
    harness.key_press(Key::Enter);
    harness.run();
    assert!(matches!(
        harness.state().actions[..],
        [Action::Show(_), Action::Rank(Some(RankIndex(3))), ..]
    ));
}

#[test]
fn findings_have_the_texts_of_the_report() {
    let harness = harness(slow());
    let finding = &harness.state().made.opened.session.findings[0];
    for sentence in rankscope_report::sentences::evidence(0, finding) {
        harness.get_by_label(&sentence.capitalised().plain());
    }
    harness.get_by_label("exposed wait that it causes per step 20.0 ms ≥ 2.4 ms");
    harness.get_by_label("Counted as cost: exposed wait for this rank in steps.");
    harness.get_by_label_contains("look at what rank 3 does between its all-reduces");
    harness.get_by_label("8 of 8 ranks seen, on 1 host");
    harness.get_by_label("No records were lost");
}

#[test]
fn losses_and_problems_are_listed() {
    let made = of(sessions::damaged());
    let mut harness = harness(made);
    harness.get_by_label_contains("Only 4 of 8 ranks seen");
    harness.get_by_label_contains("start rankscope run on every node");
    harness.get_by_label_contains("40 of 1,256 records lost").click();
    harness.run();
    harness.get_by_label("5 problems while reading the logs").click();
    harness.run();
    harness.get_by_label_contains("give the live area more room");
    harness.get_by_label("rank 2: node0-4002-0000000000000002.rslog, byte 812,345: the last frame is cut short (120 of 4,096 bytes); all before it was kept");
    harness.get_by_label("first 1 shown, 4 more");
    harness.get_by_label_contains("rank 2: 40 call, no-chunk").click();
    harness.run();
    let expected = Window::between(700 * MS, 760 * MS).with_margin(0.25);
    assert_eq!(
        harness.state().actions,
        [Action::Show(expected), Action::Rank(Some(RankIndex(2)))]
    );
}

#[test]
fn findings_of_a_large_job_list_few_ranks() {
    let mut session = Job::new(4_096, 2).session();
    let mut finding =
        rankscope_formats::session::Finding::new("late-rank", Severity::Note, "everybody is late");
    finding.ranks = (0..4_096).collect();
    session.findings = vec![finding];
    let harness = harness(of(session));
    harness.get_by_label("and 4084 more");
    assert!(harness.query_by_label("rank 12").is_none());
}

#[test]
fn pictures() {
    let mut session = Job {
        ranks: 8,
        steps: 40,
        slow: Some(3),
        hosts: 2,
    }
    .session();
    let damaged = sessions::damaged();
    session.losses = damaged.losses;
    session.problems = damaged.problems;
    session.totals.lost = 40;
    let mut second = session.findings[0].clone();
    second.severity = Severity::Warning;
    second.kind = "small-buckets".into();
    second.title =
        "62 % of the all-reduces are below 1 MiB, and take 7 % of the step: buckets are too small".into();
    second.cost_ns = rankscope_formats::session::Figure::known(412 * MS);
    second.cost_of_run = rankscope_formats::session::Ratio::figure(412, 6840, "");
    session.findings.push(second);
    let mut third = rankscope_formats::session::Finding::new(
        "library-versions",
        Severity::Note,
        "ranks 0 and 1 have another version of NCCL than the others",
    );
    third.ranks = vec![0, 1];
    session.findings.push(third);
    let made = of(session);
    let state = made.state();
    let mut panel = FindingsPanel::default();
    keep("findings", vec2(380.0, 620.0), |ui| {
        panel.show(ui, &made.opened, &state, &mut Vec::new());
        true
    });
}
