//! Colours by meaning, for the light and the dark theme. Colour-blind people can distinguish them (palette of Okabe and
//! Ito).

use egui::Color32;
use rankscope_formats::index::{CLASSES, LaneKind, call, operation, overhead, part, step, work};

/// Colours of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Theme {
    /// Whether text is light on dark.
    pub dark: bool,
}

const fn rgb(hex: u32) -> Color32 {
    Color32::from_rgb((hex >> 16) as u8, (hex >> 8) as u8, hex as u8)
}

const BLUE: u32 = 0x3b8bc9;
const SKY: u32 = 0x7cc4ef;
const GREEN: u32 = 0x2fa37c;
const ORANGE: u32 = 0xe69f00;
const VERMILION: u32 = 0xd55e00;
const PURPLE: u32 = 0xb676a3;
const YELLOW: u32 = 0xd9c833;

impl Theme {
    /// Returns the theme of an egui context.
    pub fn of(ctx: &egui::Context) -> Self {
        Self {
            dark: ctx.global_style().visuals.dark_mode,
        }
    }

    fn pick(self, dark: u32, light: u32) -> Color32 {
        rgb(if self.dark { dark } else { light })
    }

    /// Background.
    pub fn background(self) -> Color32 {
        self.pick(0x16181b, 0xffffff)
    }

    /// Background of a rank's first row.
    pub fn header(self) -> Color32 {
        self.pick(0x1f2328, 0xf1f3f5)
    }

    /// Background of a group's row.
    pub fn group(self) -> Color32 {
        self.pick(0x2a3038, 0xe2e6ea)
    }

    /// Lines between rows.
    pub fn line(self) -> Color32 {
        self.pick(0x2c3137, 0xe0e3e7)
    }

    /// Text.
    pub fn text(self) -> Color32 {
        self.pick(0xdfe3e8, 0x1d2126)
    }

    /// Less important text.
    pub fn weak(self) -> Color32 {
        self.pick(0x8f98a3, 0x646d78)
    }

    /// The current pick and its parts.
    pub fn accent(self) -> Color32 {
        self.pick(0xffffff, 0x000000)
    }

    /// A selected time range.
    pub fn selection(self) -> Color32 {
        self.pick(0x5aa9ff, 0x1d6fd1)
    }

    /// Losses and errors.
    pub fn alarm(self) -> Color32 {
        self.pick(0xff6b5e, 0xc22f1f)
    }

    /// Numbers of things, such as operations in flight.
    pub fn count(self) -> Color32 {
        self.pick(0x4b5561, 0xc3ccd5)
    }

    /// Area between zero and the mean of a counter.
    pub fn counter_area(self) -> Color32 {
        self.pick(0x2f4f6b, 0xc5dcef)
    }

    /// Band between the smallest and the largest value of a counter.
    pub fn counter_band(self) -> Color32 {
        self.pick(0x56809f, 0x93bbdc)
    }

    /// Line at the mean of a counter.
    pub fn counter_line(self) -> Color32 {
        self.pick(0xb5dcf7, 0x1f6aa5)
    }

    /// Marks of a panel or a search.
    pub fn mark(self) -> Color32 {
        self.pick(0xffe14d, 0xc28a00)
    }

    /// Returns the colours of the classes of a lane.
    pub fn classes(self, kind: LaneKind) -> [Shade; CLASSES] {
        let mut out = [Shade::plain(self.pick(0x6a7480, 0x9aa4af)); CLASSES];
        let mut set = |class: u8, shade: Shade| out[usize::from(class)] = shade;
        match kind {
            LaneKind::Parts { .. } => {
                set(part::OWN, Shade::plain(rgb(GREEN)));
                set(part::OVERLAPPED, Shade::plain(rgb(SKY)));
                set(part::EXPOSED_TRANSFER, Shade::plain(rgb(ORANGE)));
                set(part::EXPOSED_WAIT, Shade::hatched(rgb(VERMILION)));
                set(part::EXPOSED_MEMORY, Shade::plain(rgb(PURPLE)));
                set(part::IDLE, Shade::plain(self.pick(0x3a4149, 0xd3d8dd)));
                set(part::NOT_RECORDED, Shade::plain(self.background()));
                set(part::OTHER_BLOCKED, Shade::plain(self.pick(0x8a6d3b, 0xb59a62)));
            }
            LaneKind::Operations { .. } => {
                set(operation::WAITING, Shade::hatched(rgb(VERMILION)));
                set(operation::TRANSFER, Shade::plain(rgb(BLUE)));
                set(operation::INCONCLUSIVE, Shade::dotted(rgb(PURPLE)));
                set(operation::NOT_JUDGED, Shade::plain(self.pick(0x7a8794, 0x8d99a6)));
                set(operation::ENQUEUED, Shade::plain(self.pick(0x56616d, 0xb5bec8)));
                set(operation::IN_FLIGHT, Shade::dotted(self.alarm()));
                set(operation::FAILED, Shade::plain(self.alarm()));
            }
            LaneKind::Calls { .. } => {
                set(call::BLOCKED, Shade::plain(self.pick(0x9c7a3f, 0xc9a35c)));
                set(call::CONNECT, Shade::plain(rgb(PURPLE)));
                set(call::LAUNCH, Shade::plain(self.pick(0x5d7f9c, 0x8fb0ca)));
                set(call::DEVICE_WAIT, Shade::hatched(self.pick(0x8d8f4d, 0xb3b35c)));
                set(call::MEMORY, Shade::plain(rgb(PURPLE)));
                set(call::FAILURE, Shade::plain(self.alarm()));
                set(call::YIELDED, Shade::dotted(self.pick(0x767676, 0x999999)));
            }
            LaneKind::Works { .. } => {
                set(work::COMPUTE, Shade::plain(rgb(GREEN)));
                set(work::COMMUNICATION, Shade::plain(rgb(ORANGE)));
                set(work::MEMORY, Shade::plain(rgb(PURPLE)));
            }
            LaneKind::Steps => {
                set(step::TRAIN, Shade::plain(self.pick(0x3d4854, 0xc9d1d9)));
                set(step::EVALUATE, Shade::plain(self.pick(0x4f5f3a, 0xc9d9b0)));
                set(step::CHECKPOINT, Shade::plain(self.pick(0x5f4a63, 0xdcc7e0)));
            }
            LaneKind::Overhead { .. } => {
                set(overhead::RECORDER, Shade::hatched(self.pick(0x9a8fb0, 0x8b7fa6)));
                set(overhead::DRIVER, Shade::plain(self.pick(0x7d7561, 0xb3a98f)));
            }
            LaneKind::Stalls => set(0, Shade::plain(rgb(VERMILION))),
            LaneKind::Pauses => set(0, Shade::plain(rgb(YELLOW))),
            LaneKind::Marks { .. } => set(0, Shade::plain(self.pick(0x6c7f93, 0xa9bacb))),
        }
        out
    }

    /// Returns the colour of a name. It is the same everywhere, on all ranks and in all sessions.
    pub fn of_name(self, name: &str) -> Color32 {
        // FNV-1a: it distinguishes short names too. Digits at the end are ignored, because they number instances of the
        // same thing.
        let name = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let hash = name.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
            (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
        });
        // All have the same lightness, so that text on them is readable.
        let hue = (f64::from(hash.wrapping_mul(0x9e37_79b1)) / f64::from(u32::MAX)).fract() as f32;
        let (saturation, value) = if self.dark { (0.45, 0.62) } else { (0.35, 0.86) };
        egui::ecolor::Hsva::new(hue, saturation, value, 1.0).into()
    }

    /// Returns the colour of text on a background.
    pub fn text_on(self, colour: Color32) -> Color32 {
        let light =
            0.299 * f32::from(colour.r()) + 0.587 * f32::from(colour.g()) + 0.114 * f32::from(colour.b());
        if light > 120.0 {
            Color32::from_gray(0x10)
        } else {
            Color32::from_gray(0xf4)
        }
    }
}

/// Appearance of a class. Patterns distinguish classes without colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shade {
    /// Colour.
    pub colour: Color32,
    /// Pattern in the colour.
    pub pattern: Pattern,
}

/// Pattern of a shade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// No pattern.
    Plain,
    /// Rising lines: waiting.
    Hatched,
    /// Dots: unknown.
    Dotted,
}

impl Shade {
    /// Creates a shade without a pattern.
    pub const fn plain(colour: Color32) -> Self {
        Self {
            colour,
            pattern: Pattern::Plain,
        }
    }

    const fn hatched(colour: Color32) -> Self {
        Self {
            colour,
            pattern: Pattern::Hatched,
        }
    }

    const fn dotted(colour: Color32) -> Self {
        Self {
            colour,
            pattern: Pattern::Dotted,
        }
    }

    /// Returns the shade without its pattern.
    #[must_use]
    pub fn without_pattern(self) -> Self {
        Self::plain(self.colour)
    }

    /// Returns the colour of a pixel.
    #[inline]
    pub fn at(self, x: usize, y: usize) -> Color32 {
        let is_dim = match self.pattern {
            Pattern::Plain => false,
            Pattern::Hatched => (x + y) % 5 < 2,
            Pattern::Dotted => x % 4 >= 2 || y % 4 >= 2,
        };
        if is_dim { dimmed(self.colour) } else { self.colour }
    }
}

/// Returns the colour at 9/16 of its brightness.
#[inline]
pub fn dimmed(colour: Color32) -> Color32 {
    Color32::from_rgb(
        (u16::from(colour.r()) * 9 / 16) as u8,
        (u16::from(colour.g()) * 9 / 16) as u8,
        (u16::from(colour.b()) * 9 / 16) as u8,
    )
}

/// Returns a mixture of one fifth of `colour` and four fifths of `into`.
#[inline]
pub fn faded(colour: Color32, into: Color32) -> Color32 {
    let mix = |own: u8, other: u8| ((u16::from(own) + 4 * u16::from(other)) / 5) as u8;
    Color32::from_rgb(
        mix(colour.r(), into.r()),
        mix(colour.g(), into.g()),
        mix(colour.b(), into.b()),
    )
}
