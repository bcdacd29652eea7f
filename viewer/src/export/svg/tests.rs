//! Tests that read the documents with an XML parser.

use super::*;
use crate::screenshot::{self, Frames, Readiness};
use egui::text::{LayoutJob, TextFormat};
use egui::{ColorImage, CornerRadius, FontId, Mesh, RichText, StrokeKind, TextureOptions, Ui, pos2, vec2};
use roxmltree::{Document, Node};

/// Returns the document of a frame of 400 × 300 points.
fn drawn(pixels_per_point: f32, show: impl FnMut(&mut Ui)) -> String {
    let mut show = show;
    let shapes = screenshot::shapes(vec2(400.0, 300.0), pixels_per_point, Frames::default(), |ui| {
        show(ui);
        Readiness::Ready
    });
    document(&shapes.expect("a frame"))
}

fn named<'a>(document: &'a Document<'a>, name: &str) -> Vec<Node<'a, 'a>> {
    document
        .descendants()
        .filter(|node| node.has_tag_name(("http://www.w3.org/2000/svg", name)))
        .collect()
}

fn place(node: Node<'_, '_>, name: &str) -> f32 {
    let value = node
        .attribute(name)
        .unwrap_or_else(|| panic!("{name} of {node:?}"));
    value.parse().expect("a number")
}

/// A decoded image.
#[derive(Debug, PartialEq)]
struct Pixels {
    width: u32,
    height: u32,
    /// Channels of all pixels, or one of them.
    bytes: Vec<u8>,
}

/// Decodes an embedded image.
fn image(node: Node<'_, '_>) -> Pixels {
    use base64::Engine;
    let data = node.attribute("href").expect("an image");
    let data = data.strip_prefix("data:image/png;base64,").expect("PNG inside");
    let file = base64::engine::general_purpose::STANDARD
        .decode(data)
        .expect("base64");
    let mut reader = png::Decoder::new(std::io::Cursor::new(file))
        .read_info()
        .expect("PNG");
    let mut bytes = vec![0; reader.output_buffer_size().expect("small")];
    let info = reader.next_frame(&mut bytes).expect("pixels");
    bytes.truncate(info.buffer_size());
    Pixels {
        width: info.width,
        height: info.height,
        bytes,
    }
}

#[test]
fn texts_are_text_elements_row_by_row() {
    let text = drawn(1.0, |ui| {
        ui.label(RichText::new("all_reduce <f32> & \"more\"").size(15.0));
        ui.label(RichText::new("two\nrows").monospace().color(egui::Color32::RED));
        let mut job = LayoutJob::default();
        let format = |size, colour| TextFormat {
            font_id: FontId::proportional(size),
            color: colour,
            ..TextFormat::default()
        };
        job.append("big  ", 0.0, format(20.0, egui::Color32::WHITE));
        job.append("small", 4.0, format(9.0, egui::Color32::GREEN));
        ui.label(job);
        let long = egui::Label::new("a text that has no room and ends early").truncate();
        ui.add_sized([60.0, 20.0], long);
    });
    let document = Document::parse(&text).expect("XML");
    let texts = named(&document, "text");
    let of = |text_of_node: &str| {
        let found = texts.iter().find(|node| node.text() == Some(text_of_node));
        *found.unwrap_or_else(|| panic!("{text_of_node}: {text}"))
    };
    let label = of("all_reduce <f32> & \"more\"");
    assert_eq!(label.attribute("font-size"), Some("15"));
    assert!(
        label
            .attribute("font-family")
            .is_some_and(|family| family.ends_with("sans-serif"))
    );
    assert!(place(label, "textLength") > 100.0);
    let (first, second) = (of("two"), of("rows"));
    assert!(place(second, "y") > place(first, "y") + 5.0);
    assert_eq!(first.attribute("fill"), Some("#ff0000"));
    assert!(
        first
            .attribute("font-family")
            .is_some_and(|family| family.ends_with("monospace"))
    );
    // Parts of a row with different formats.
    let pieces = named(&document, "tspan");
    let pieces: Vec<_> = pieces
        .iter()
        .map(|piece| {
            (
                piece.text(),
                piece.attribute("font-size"),
                piece.attribute("fill"),
            )
        })
        .collect();
    assert_eq!(
        pieces,
        [
            (Some("big"), Some("20"), Some("#ffffff")),
            (Some("small"), Some("9"), Some("#00ff00"))
        ]
    );
    let cut = texts.iter().filter_map(|node| node.text());
    let cut: Vec<_> = cut.filter(|text| text.ends_with('…')).collect();
    assert!(
        matches!(cut.as_slice(), [text] if text.starts_with("a text")),
        "{cut:?}"
    );
}

#[test]
fn shapes_keep_their_kind_and_clip() {
    let text = drawn(1.0, |ui| {
        let clip = Rect::from_min_max(pos2(20.0, 30.0), pos2(220.0, 130.0));
        let painter = ui.painter_at(clip);
        let at = |left, top, right, bottom| Rect::from_min_max(pos2(left, top), pos2(right, bottom));
        let blue = egui::Color32::from_rgb(0, 0, 255);
        painter.rect_filled(at(10.0, 40.0, 50.4, 60.0), 0.0, blue);
        let stroke = Stroke::new(2.0, egui::Color32::RED);
        painter.rect_stroke(at(60.0, 40.0, 90.0, 60.0), 4.0, stroke, StrokeKind::Inside);
        let tab = CornerRadius {
            nw: 5,
            ne: 5,
            sw: 0,
            se: 0,
        };
        painter.rect_filled(at(100.0, 40.0, 120.0, 60.0), tab, blue);
        painter.circle_filled(pos2(150.0, 50.0), 5.0, blue);
        painter.vline(30.0, 40.0..=60.0, Stroke::new(1.0, blue));
        painter.add(Shape::convex_polygon(
            vec![pos2(160.0, 40.0), pos2(170.0, 40.0), pos2(165.0, 50.0)],
            blue,
            Stroke::NONE,
        ));
        // Invisible shapes.
        painter.rect_filled(
            at(300.0, 200.0, 310.0, 210.0),
            0.0,
            egui::Color32::from_rgb(1, 2, 3),
        );
        painter.rect_filled(Rect::NAN, 0.0, blue);
        painter.rect_filled(Rect::EVERYTHING, 0.0, blue);
        painter.circle_filled(pos2(f32::NAN, 50.0), 5.0, blue);
    });
    let document = Document::parse(&text).expect("XML");
    let root = document.root_element();
    assert_eq!(root.attribute("viewBox"), Some("0 0 400 300"));
    let groups: Vec<Node<'_, '_>> = named(&document, "g")
        .into_iter()
        .filter(|group| {
            let Some(id) = group.attribute("clip-path") else {
                return false;
            };
            let id = id.trim_start_matches("url(#").trim_end_matches(')');
            let clips = named(&document, "clipPath");
            let clip = clips.iter().find(|clip| clip.attribute("id") == Some(id));
            let path = clip.and_then(|clip| clip.first_element_child()).expect("defined");
            path.attribute("d") == Some("M20 30H220V130H20V30Z")
        })
        .collect();
    let [group] = groups.as_slice() else {
        panic!("{text}");
    };
    let children: Vec<Node<'_, '_>> = group.children().filter(Node::is_element).collect();
    let names: Vec<&str> = children.iter().map(|child| child.tag_name().name()).collect();
    assert_eq!(
        names,
        ["rect", "rect", "path", "circle", "line", "polygon", "rect"],
        "{text}"
    );
    // Aligned to whole pixels.
    assert_eq!(place(children[0], "width"), 40.0);
    assert_eq!(children[0].attribute("stroke"), None);
    // The outline is the middle of the stroke, whose other half is inside.
    assert_eq!(
        (place(children[1], "x"), place(children[1], "width")),
        (61.0, 28.0)
    );
    assert_eq!(
        (place(children[1], "rx"), children[1].attribute("fill")),
        (3.0, Some("none"))
    );
    assert!(
        children[2]
            .attribute("d")
            .is_some_and(|data| data.matches('A').count() == 2)
    );
    assert_eq!((place(children[4], "x1"), place(children[4], "y1")), (30.5, 40.0));
    assert!(!text.contains("#010203"), "what is not seen is left out");
}

#[test]
fn pictures_keep_their_pixels() {
    let mut texture = None;
    let show = |ui: &mut Ui| {
        let texture = texture.get_or_insert_with(|| {
            let pixels = (0..8)
                .map(|number| egui::Color32::from_rgb(number * 10, 0, 0))
                .collect();
            ui.ctx().load_texture(
                "row",
                ColorImage::new([4, 2], pixels),
                TextureOptions::NEAREST_REPEAT,
            )
        });
        let rows = |rect: Rect, uv: Rect, tint| {
            let mut mesh = Mesh::with_texture(texture.id());
            mesh.add_rect_with_uv(rect, uv, tint);
            ui.painter().add(mesh);
        };
        let white = egui::Color32::WHITE;
        let whole = Rect::from_min_max(pos2(0.0, 0.0), pos2(1.0, 1.0));
        rows(
            Rect::from_min_size(pos2(10.0, 10.0), vec2(100.0, 20.0)),
            whole,
            white,
        );
        // Half of the second and half of the third texel of the upper row.
        let part = Rect::from_min_max(pos2(0.375, 0.0), pos2(0.625, 0.5));
        rows(
            Rect::from_min_size(pos2(10.0, 50.0), vec2(100.0, 20.0)),
            part,
            white,
        );
        // Twice in a row, at half the brightness.
        let twice = Rect::from_min_max(pos2(0.0, 0.0), pos2(2.0, 1.0));
        rows(
            Rect::from_min_size(pos2(10.0, 90.0), vec2(80.0, 20.0)),
            twice,
            egui::Color32::from_gray(128),
        );
        // Upside down: SVG cannot express this, so the image is rasterised.
        let over = Rect {
            min: pos2(0.0, 1.0),
            max: pos2(1.0, 0.0),
        };
        rows(
            Rect::from_min_size(pos2(10.0, 130.0), vec2(8.0, 4.0)),
            over,
            white,
        );
    };
    let text = drawn(1.0, show);
    let document = Document::parse(&text).expect("XML");
    let images = named(&document, "image");
    assert_eq!(images.len(), 4, "{text}");
    for node in &images {
        assert_eq!(node.attribute("style"), Some("image-rendering:pixelated"));
        assert_eq!(node.attribute("preserveAspectRatio"), Some("none"));
    }
    let reds = |number: usize| {
        let image = image(images[number]);
        Pixels {
            bytes: image.bytes.chunks_exact(3).map(|pixel| pixel[0]).collect(),
            ..image
        }
    };
    let expected = |width, height, bytes: &[u8]| Pixels {
        width,
        height,
        bytes: bytes.to_vec(),
    };
    assert_eq!(reds(0), expected(4, 2, &[0, 10, 20, 30, 40, 50, 60, 70]));
    assert_eq!(images[0].attribute("clip-path"), None);
    assert_eq!((place(images[0], "x"), place(images[0], "width")), (10.0, 100.0));
    assert_eq!(reds(1), expected(2, 1, &[10, 20]));
    assert_eq!((place(images[1], "x"), place(images[1], "width")), (-40.0, 200.0));
    assert!(images[1].attribute("clip-path").is_some());
    assert_eq!(reds(2).bytes[..8], [0, 5, 10, 15, 0, 5, 10, 15]);
    assert_eq!(
        reds(3).bytes,
        [
            40, 40, 50, 50, 60, 60, 70, 70, 40, 40, 50, 50, 60, 60, 70, 70, 0, 0, 10, 10, 20, 20, 30, 30, 0,
            0, 10, 10, 20, 20, 30, 30
        ]
    );
}

#[test]
fn triangles_become_rectangles_gradients_or_paths() {
    let text = drawn(2.0, |ui| {
        let mut mesh = Mesh::default();
        let at = |left: f32, right: f32| Rect::from_min_max(pos2(left, 10.0), pos2(right, 20.0));
        mesh.add_colored_rect(at(10.0, 20.0), egui::Color32::RED);
        mesh.add_colored_rect(at(20.0, 30.0), egui::Color32::RED);
        mesh.add_colored_rect(at(30.0, 40.0), egui::Color32::BLUE);
        ui.painter().add(mesh);
        let mut mesh = Mesh::default();
        for (x, colour) in [(50.0, egui::Color32::TRANSPARENT), (70.0, egui::Color32::WHITE)] {
            mesh.colored_vertex(pos2(x, 10.0), colour);
            mesh.colored_vertex(pos2(x, 20.0), colour);
        }
        mesh.add_triangle(0, 1, 2);
        mesh.add_triangle(1, 2, 3);
        ui.painter().add(mesh);
        // A triangle of three colours is rasterised.
        let mut mesh = Mesh::default();
        mesh.colored_vertex(pos2(80.0, 10.0), egui::Color32::RED);
        mesh.colored_vertex(pos2(90.0, 10.0), egui::Color32::GREEN);
        mesh.colored_vertex(pos2(80.0, 20.0), egui::Color32::BLUE);
        mesh.add_triangle(0, 1, 2);
        ui.painter().add(mesh);
    });
    let document = Document::parse(&text).expect("XML");
    let root = document.root_element();
    assert_eq!(
        (root.attribute("width"), root.attribute("viewBox")),
        (Some("400"), Some("0 0 400 300"))
    );
    let paths: Vec<_> = named(&document, "path")
        .iter()
        .filter(|path| path.attribute("shape-rendering").is_some())
        .map(|path| {
            (
                path.attribute("d").unwrap_or_default().to_owned(),
                path.attribute("fill"),
            )
        })
        .collect();
    assert_eq!(
        paths,
        [
            (
                "M10 10H20V20H10V10ZM20 10H30V20H20V10Z".to_owned(),
                Some("#ff0000")
            ),
            ("M30 10H40V20H30V10Z".to_owned(), Some("#0000ff"))
        ]
    );
    let stops = named(&document, "stop");
    let stops: Vec<_> = stops
        .iter()
        .map(|stop| (stop.attribute("stop-color"), stop.attribute("stop-opacity")))
        .collect();
    assert_eq!(
        stops,
        [(Some("#ffffff"), Some("0")), (Some("#ffffff"), Some("1"))]
    );
    let images = named(&document, "image");
    assert_eq!(images.len(), 1);
    let Pixels { width, height, .. } = image(images[0]);
    assert_eq!((width, height, place(images[0], "width")), (20, 20, 10.0));
}

#[test]
fn a_document_is_written_atomically() {
    let shapes = screenshot::shapes(vec2(50.0, 40.0), 1.0, Frames::default(), |_| Readiness::Ready);
    let shapes = shapes.expect("a frame");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("a.svg");
    write(&path, &shapes).expect("written");
    let text = std::fs::read_to_string(&path).expect("read");
    assert!(Document::parse(&text).is_ok());
    let error = write(Path::new("/nonexistent/a.svg"), &shapes).expect_err("no such directory");
    assert!(error.to_string().contains("/nonexistent/a.svg"), "{error}");
}
