use super::*;
use proptest::prelude::*;

fn footer() -> Footer {
    Footer {
        session_written_unix_ns: 7,
        rank: 3,
        ..Footer::default()
    }
}

/// Creates the spans of a lane from gaps and durations.
fn spans_of(parts: &[(i64, i64, i64, u8, Option<u64>)]) -> Vec<Span> {
    let mut at = -1000;
    parts
        .iter()
        .map(|&(gap, duration, wait, class, instance)| {
            let start_ns = at + gap;
            at = start_ns + duration;
            Span {
                start_ns,
                end_ns: at,
                wait_ns: wait.min(duration),
                queued_ns: wait % 7,
                class,
                name: class.into(),
                instance,
            }
        })
        .collect()
}

fn written(spans: &[Span]) -> (tempfile::TempDir, ViewFile) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = view_path(folder.path(), 3);
    let mut writer = ViewWriter::create(&path).expect("create");
    let lane = writer.lane(
        LaneKind::Operations {
            communicator: Some(2),
        },
        0,
    );
    for span in spans {
        writer.push(lane, *span).expect("push");
    }
    writer.finish(footer()).expect("finish");
    let view = ViewFile::open(&path).expect("open");
    (folder, view)
}

fn brute(spans: &[Span], ns: i64) -> Sums {
    let mut sums = Sums::default();
    spans.iter().for_each(|span| sums.add_until(span, ns));
    sums
}

fn lane_of_spans() -> impl Strategy<Value = Vec<(i64, i64, i64, u8, Option<u64>)>> {
    let span = (
        0i64..50,
        0i64..90,
        0i64..60,
        0u8..8,
        proptest::option::of(0u64..u64::MAX),
    );
    proptest::collection::vec(span, 0..400)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn spans_are_read_back_and_sums_equal_a_count(
        parts in lane_of_spans(), mut moments in proptest::collection::vec(-1100i64..60_000, 1..40),
    ) {
        let spans = spans_of(&parts);
        let (_folder, view) = written(&spans);
        let lane = view.lane(0).expect("a lane");
        let mut back = Vec::new();
        lane.spans_in(i64::MIN, i64::MAX, |span| { back.push(*span); true });
        prop_assert_eq!(&back, &spans);
        prop_assert_eq!(lane.info.spans, spans.len() as u64);
        prop_assert_eq!(lane.info.totals(), brute(&spans, i64::MAX));
        moments.sort_unstable();
        let mut sweep = Sweep::new(lane);
        let mut estimates = Sweep::new(lane);
        let mut before = 0;
        for &ns in &moments {
            prop_assert_eq!(sweep.until(ns), brute(&spans, ns), "at {}", ns);
            prop_assert_eq!(lane.sums_until(ns), brute(&spans, ns));
            let estimate = estimates.estimate(ns).total_ns();
            prop_assert!(estimate >= before && estimate <= lane.info.totals().total_ns());
            before = estimate;
            let at = lane.span_at(ns, 0);
            let inside = spans.iter().find(|span| span.start_ns <= ns && (ns < span.end_ns || span.start_ns == ns));
            if let Some(inside) = inside {
                let at = at.expect("a span here");
                prop_assert!(at.start_ns <= ns && at.end_ns >= inside.start_ns);
            } else {
                prop_assert_eq!(at, None);
            }
            prop_assert_eq!(lane.next_after(ns), spans.iter().copied().find(|span| span.start_ns > ns));
            let last = spans.iter().rev().find(|span| span.start_ns < ns).copied();
            prop_assert_eq!(lane.last_before(ns).map(|span| span.start_ns), last.map(|span| span.start_ns));
        }
        let mut holding = Sweep::new(lane);
        for &ns in &moments {
            let expected = spans.iter().copied().find(|span| span.start_ns <= ns && ns < span.end_ns);
            prop_assert_eq!(holding.span(ns), expected);
        }
        let (from, to) = (moments[0], moments[moments.len() - 1]);
        let mut inside = Vec::new();
        lane.spans_in(from, to, |span| { inside.push(*span); true });
        let expected: Vec<Span> = spans.iter().copied()
            .filter(|span| span.start_ns < to && (span.end_ns > from || span.start_ns >= from)).collect();
        prop_assert_eq!(inside, expected);
    }

    /// Damage anywhere gives an error or other spans, never a panic, and never more spans than a block declares.
    #[test]
    fn damaged_files_are_read_or_refused(parts in lane_of_spans(), at in 0usize..1 << 20, byte in any::<u8>(), cut in any::<bool>()) {
        let spans = spans_of(&parts);
        let (folder, view) = written(&spans);
        drop(view);
        let path = view_path(folder.path(), 3);
        let mut bytes = std::fs::read(&path).expect("read");
        let at = at % bytes.len();
        if cut { bytes.truncate(at) } else { bytes[at] = byte }
        let other = folder.path().join("damaged.view");
        std::fs::write(&other, &bytes).expect("write");
        if let Ok(view) = ViewFile::open(&other) {
            for position in 0..view.footer().lanes.len() {
                let Some(lane) = view.lane(position) else { continue };
                let mut count = 0;
                lane.spans_in(i64::MIN, i64::MAX, |_| { count += 1; true });
                prop_assert!(count <= lane.blocks() * BLOCK_SPANS);
                lane.sums_in(-100, 100);
                lane.span_at(0, 1000);
            }
        } else {
            prop_assert!(cut || bytes != std::fs::read(&path).expect("read"));
        }
    }
}

#[test]
fn overlapping_spans_are_in_layers() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = view_path(folder.path(), 0);
    let mut writer = ViewWriter::create(&path).expect("create");
    let mut layers = Layers::default();
    let kind = LaneKind::Marks { thread_id: 4 };
    for (start_ns, end_ns) in [(0, 100), (10, 50), (20, 30), (60, 70), (100, 110)] {
        let name = writer.name(Name {
            text: format!("{start_ns}"),
            bytes: None,
        });
        let span = Span {
            start_ns,
            end_ns,
            name,
            ..Span::default()
        };
        layers.push(&mut writer, kind, span).expect("push");
    }
    let parts = writer.lane(LaneKind::Parts { device: false }, 0);
    writer
        .push(
            parts,
            Span {
                end_ns: 5,
                ..Span::default()
            },
        )
        .expect("push");
    writer.finish(footer()).expect("finish");
    let view = ViewFile::open(&path).expect("open");
    let lanes: Vec<(LaneKind, u32, u64)> = view
        .footer()
        .lanes
        .iter()
        .map(|lane| (lane.kind, lane.layer, lane.spans))
        .collect();
    assert_eq!(
        lanes,
        [
            (LaneKind::Parts { device: false }, 0, 1),
            (kind, 0, 2),
            (kind, 1, 2),
            (kind, 2, 1)
        ]
    );
    let second = view.lane(2).expect("a lane");
    assert_eq!(
        second
            .span_at(65, 0)
            .and_then(|span| Some(view.name(span.name)?.text.as_str())),
        Some("60")
    );
    assert_eq!(second.span_at(54, 5).map(|span| span.start_ns), Some(10));
    assert_eq!(second.span_at(55, 1), None);
    assert_eq!(layers.shortened, 0);
}

#[test]
fn a_file_of_another_kind_or_version_is_refused_with_a_reason() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("a.view");
    for (bytes, reason) in [
        (&b"something else that is long enough to be one"[..], "no index"),
        (b"RSVIEW\0\x09________________________________", "another version"),
        // Version 1 has no lanes of overhead, and version 2 no counters, so the index is built again.
        (b"RSVIEW\0\x01________________________________", "another version"),
        (b"RSVIEW\0\x02________________________________", "another version"),
        (b"RSVIEW\0\x03", "trailer"),
        (b"RSVIEW\0\x03________________________________", "cut off"),
    ] {
        std::fs::write(&path, bytes).expect("write");
        let error = ViewFile::open(&path).expect_err("refused").to_string();
        assert!(error.contains(reason) && error.contains("a.view"), "{error}");
    }
}
