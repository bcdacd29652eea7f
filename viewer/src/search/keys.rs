//! Table of all commands with their names and keys, and the detection of key presses.
//!
//! Where Perfetto has a key for the same action, rankscope uses it too. Help and palette show this table, so that they
//! always agree with the keys.

use crate::model::PanelTab;
use egui::{Context, Event, Key, KeyboardShortcut, Modifiers};

/// Identifier of a command. Other modules execute it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CommandId {
    /// Zooms in around the mouse, else around the middle.
    ZoomIn,
    /// Zooms out.
    ZoomOut,
    /// Pans to earlier times.
    PanLeft,
    /// Pans to later times.
    PanRight,
    /// Shows the selection: the range, else the picked instance.
    ZoomToSelection,
    /// Shows the whole run.
    ShowAll,
    /// Goes to the start of the run without zooming.
    GoToBegin,
    /// Goes to the end of the run without zooming.
    GoToEnd,
    /// Asks for a time range, a time or a step, and shows it.
    GoTo,
    /// Returns to the previous time range.
    Back,
    /// Goes forward to the time range after this one.
    Forward,
    /// Makes the previous rank the current one.
    RowUp,
    /// Makes the next rank the current one.
    RowDown,
    /// Picks the next instance of the same communicator and rank.
    NextInstance,
    /// Picks the previous instance of the same communicator and rank.
    PreviousInstance,
    /// Picks the next span of the same lane.
    NextSpan,
    /// Picks the previous span of the same lane.
    PreviousSpan,
    /// Selects the time range of the current pick.
    MarkSelection,
    /// Measures the time between two points.
    Measure,
    /// Writes a note at the selection.
    Note,
    /// Clears the first of these that is active: search, measuring, picks, marks, notes, selected range.
    Clear,
    /// Opens the search.
    Search,
    /// Pins the rank to the top, or unpins it.
    PinRank,
    /// Hides the rank.
    HideRank,
    /// Shows hidden ranks again.
    ShowHidden,
    /// Switches between low and high rows.
    ToggleDense,
    /// Shows the next choice of counters: of the program, all, none.
    NextCounters,
    /// Groups the ranks in the next way that the session offers.
    NextGrouping,
    /// Shows the ranks of all groups, or of none.
    ToggleAllGroups,
    /// Moves the rank one place up.
    MoveRankUp,
    /// Moves the rank one place down.
    MoveRankDown,
    /// Shows the lanes of all ranks, or of none.
    ToggleAllRanks,
    /// Shows all lanes of the rank, or only its parts.
    ToggleRank,
    /// Shows a tab of the drawer.
    Tab(PanelTab),
    /// Opens or closes the drawer.
    ToggleDrawer,
    /// Opens or closes the list of findings.
    ToggleFindings,
    /// Opens a session.
    Open,
    /// Compares with another session.
    Compare,
    /// Opens the export dialog.
    Export,
    /// Writes the window as a picture.
    Screenshot,
    /// Switches between the dark and the light theme.
    ToggleTheme,
    /// Opens the command palette.
    Palette,
    /// Shows all keys.
    Help,
    /// Closes the window.
    Quit,
}

impl CommandId {
    /// Returns whether the command repeats while its key is held.
    fn repeats(self) -> bool {
        matches!(
            self,
            Self::NextInstance
                | Self::PreviousInstance
                | Self::NextSpan
                | Self::PreviousSpan
                | Self::RowUp
                | Self::RowDown
                | Self::MoveRankUp
                | Self::MoveRankDown
                | Self::Back
                | Self::Forward
        )
    }

    /// Returns whether the command acts continuously while its key is held: see [`held`].
    fn is_held(self) -> bool {
        matches!(
            self,
            Self::ZoomIn | Self::ZoomOut | Self::PanLeft | Self::PanRight
        )
    }
}

/// A command.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    /// Stable identifier.
    pub id: &'static str,
    /// Displayed name.
    pub name: &'static str,
    /// Alternative keys.
    pub keys: &'static [KeyboardShortcut],
    /// Heading in the help.
    pub group: &'static str,
    /// Action of the command.
    pub what: CommandId,
}

impl Command {
    /// Returns its keys for display, such as `Ctrl+Z, Alt+Left`.
    pub fn keys_text(&self, ctx: &Context) -> String {
        let text = |shortcut: &KeyboardShortcut| {
            let text = ctx.format_shortcut(shortcut);
            let (name, sign) = (shortcut.logical_key.name(), shortcut.logical_key.symbol_or_name());
            // Punctuation keys are shown as symbols. Arrows are not, because some fonts lack them.
            let is_arrow = matches!(
                shortcut.logical_key,
                Key::ArrowLeft | Key::ArrowRight | Key::ArrowUp | Key::ArrowDown
            );
            match text.strip_suffix(name) {
                Some(modifiers) if !is_arrow => format!("{modifiers}{sign}"),
                _ => text,
            }
        };
        let keys: Vec<String> = self.keys.iter().map(text).collect();
        keys.join(", ")
    }
}

const fn key(key: Key) -> KeyboardShortcut {
    KeyboardShortcut::new(Modifiers::NONE, key)
}

const fn shift(key: Key) -> KeyboardShortcut {
    KeyboardShortcut::new(Modifiers::SHIFT, key)
}

const fn ctrl(key: Key) -> KeyboardShortcut {
    KeyboardShortcut::new(Modifiers::COMMAND, key)
}

const fn ctrl_shift(key: Key) -> KeyboardShortcut {
    KeyboardShortcut::new(Modifiers::COMMAND.plus(Modifiers::SHIFT), key)
}

const fn alt(key: Key) -> KeyboardShortcut {
    KeyboardShortcut::new(Modifiers::ALT, key)
}

/// Headings in display order.
pub const GROUPS: [&str; 5] = ["Time", "Selection", "Ranks", "Panels", "Program"];

macro_rules! commands {
    ($($group:literal { $($id:literal, $name:literal, $what:expr, [$($key:expr),*];)* })*) => {
        /// All commands.
        pub const COMMANDS: &[Command] = &[$($(Command {
            id: $id,
            name: $name,
            keys: &[$($key),*],
            group: $group,
            what: $what,
        },)*)*];
    };
}

commands! {
    "Time" {
        "zoom-in", "Zoom in", CommandId::ZoomIn, [key(Key::W), key(Key::Plus)];
        "zoom-out", "Zoom out", CommandId::ZoomOut, [key(Key::S), key(Key::Minus)];
        "pan-left", "Pan left (Shift: faster)", CommandId::PanLeft, [key(Key::A), key(Key::ArrowLeft)];
        "pan-right", "Pan right (Shift: faster)", CommandId::PanRight, [key(Key::D), key(Key::ArrowRight)];
        "zoom-to-selection", "Zoom to the selection", CommandId::ZoomToSelection, [key(Key::F)];
        "show-all", "Show all", CommandId::ShowAll, [key(Key::Num0)];
        "go-to-begin", "Go to the start", CommandId::GoToBegin, [key(Key::Home)];
        "go-to-end", "Go to the end", CommandId::GoToEnd, [key(Key::End)];
        "go-to", "Go to a time or step…", CommandId::GoTo, [key(Key::G)];
        "back", "Go back to the previous view", CommandId::Back, [ctrl(Key::Z), alt(Key::ArrowLeft)];
        "forward", "Go forward to the next view", CommandId::Forward, [ctrl_shift(Key::Z), alt(Key::ArrowRight)];
    }
    "Selection" {
        "search", "Search…", CommandId::Search, [key(Key::Slash), ctrl(Key::F)];
        "next-instance", "Pick the communicator's next instance", CommandId::NextInstance, [key(Key::Period)];
        "previous-instance", "Pick the communicator's previous instance", CommandId::PreviousInstance, [key(Key::Comma)];
        "next-span", "Pick the lane's next instance", CommandId::NextSpan, [key(Key::CloseBracket)];
        "previous-span", "Pick the lane's previous instance", CommandId::PreviousSpan, [key(Key::OpenBracket)];
        "mark", "Select the time of the picked instance", CommandId::MarkSelection, [key(Key::M)];
        "measure", "Measure a time", CommandId::Measure, [shift(Key::M)];
        "note", "Write a note…", CommandId::Note, [key(Key::N)];
        "clear", "Clear the search, pick or range", CommandId::Clear, [key(Key::Escape)];
    }
    "Ranks" {
        "row-up", "Select the rank above", CommandId::RowUp, [key(Key::ArrowUp)];
        "row-down", "Select the rank below", CommandId::RowDown, [key(Key::ArrowDown)];
        "toggle-rank", "Expand or collapse the rank", CommandId::ToggleRank, [key(Key::C), key(Key::Enter)];
        "pin-rank", "Pin or unpin the rank at the top", CommandId::PinRank, [key(Key::P)];
        "hide-rank", "Hide the rank", CommandId::HideRank, [key(Key::H)];
        "move-rank-up", "Move the rank up", CommandId::MoveRankUp, [alt(Key::ArrowUp)];
    "move-rank-down", "Move the rank down", CommandId::MoveRankDown, [alt(Key::ArrowDown)];
    "toggle-dense", "Toggle low and high rows", CommandId::ToggleDense, [key(Key::Z)];
    "next-counters", "Show counters of the program, all, or none", CommandId::NextCounters, [key(Key::V)];
    "next-grouping", "Group ranks by host, stage or role", CommandId::NextGrouping, [key(Key::R)];
    "toggle-all-groups", "Expand or collapse all groups", CommandId::ToggleAllGroups, [shift(Key::R)];
    "toggle-all-ranks", "Expand or collapse all ranks", CommandId::ToggleAllRanks, [shift(Key::C)];
    "show-hidden", "Show hidden ranks", CommandId::ShowHidden, [shift(Key::H)];
    }
    "Panels" {
        "tab-time", "Show where the time went", CommandId::Tab(PanelTab::Time), [key(Key::Num1)];
        "tab-operations", "Show operations by kind and size", CommandId::Tab(PanelTab::Operations), [key(Key::Num2)];
        "tab-stalls", "Show stalls", CommandId::Tab(PanelTab::Stalls), [key(Key::Num3)];
        "tab-lateness", "Show which ranks are late", CommandId::Tab(PanelTab::Lateness), [key(Key::Num4)];
        "tab-heat-maps", "Show heat maps", CommandId::Tab(PanelTab::HeatMaps), [key(Key::Num5)];
        "tab-counters", "Show the values of counters", CommandId::Tab(PanelTab::Counters), [key(Key::Num6)];
        "toggle-drawer", "Open or close the drawer", CommandId::ToggleDrawer, [key(Key::B)];
        "toggle-findings", "Open or close the findings", CommandId::ToggleFindings, [key(Key::L)];
    }
    "Program" {
        "open", "Open a session…", CommandId::Open, [ctrl(Key::O)];
        "compare", "Compare with another session…", CommandId::Compare, [ctrl(Key::K)];
        "export", "Export…", CommandId::Export, [ctrl(Key::E)];
        "screenshot", "Save a picture (PNG)…", CommandId::Screenshot, [ctrl(Key::S)];
        "theme", "Toggle dark and light theme", CommandId::ToggleTheme, [key(Key::T)];
        "palette", "Show all commands…", CommandId::Palette, [ctrl(Key::P), ctrl_shift(Key::P)];
        "quit", "Close the window", CommandId::Quit, [ctrl(Key::Q)];
    "help", "Show help: all keys", CommandId::Help, [key(Key::Questionmark), key(Key::F1)];
    }
}

/// Returns whether Shift distinguishes shortcuts of a key. On some keyboard layouts, punctuation and digits need Shift.
fn shift_matters(key: Key) -> bool {
    let name = key.name();
    let is_letter = name.len() == 1 && name.bytes().all(|c| c.is_ascii_alphabetic());
    is_letter
        || matches!(
            key,
            Key::ArrowDown
                | Key::ArrowLeft
                | Key::ArrowRight
                | Key::ArrowUp
                | Key::Escape
                | Key::Enter
                | Key::Home
                | Key::End
                | Key::F1
        )
}

fn is_pressed(shortcut: &KeyboardShortcut, key: Key, modifiers: Modifiers) -> bool {
    let shift = modifiers.shift && shift_matters(key);
    shortcut.logical_key == key && Modifiers { shift, ..modifiers }.matches_exact(shortcut.modifiers)
}

/// Returns the commands whose keys were pressed since the last frame, in order. Consumes their key events.
///
/// `typing` means that a text field has the focus ([`Context::text_edit_focused`]). Then only those keys with Ctrl
/// count that text fields do not use. Keys for the focused widget are not consumed: Enter and arrows belong to a button
/// that was reached with Tab. For panning and zooming see [`held`].
pub fn pressed(ctx: &Context, typing: bool) -> Vec<CommandId> {
    let is_other_focused = ctx.memory(|memory| memory.focused()).is_some();
    let mut out = Vec::new();
    ctx.input_mut(|input| {
        input.events.retain(|event| {
            let Event::Key {
                key,
                pressed: true,
                repeat,
                modifiers,
                ..
            } = event
            else {
                return true;
            };
            let is_for_text = !modifiers.command && *key != Key::F1 || *key == Key::Z || modifiers.alt;
            let is_for_widget = is_focus_key(*key) && modifiers.is_none();
            if typing && is_for_text || is_other_focused && is_for_widget {
                return true;
            }
            let command = COMMANDS.iter().find(|command| {
                !command.what.is_held()
                    && command
                        .keys
                        .iter()
                        .any(|shortcut| is_pressed(shortcut, *key, *modifiers))
            });
            let Some(command) = command else { return true };
            if !repeat || command.what.repeats() {
                out.push(command.what);
            }
            false
        });
    });
    out
}

/// Returns whether egui uses a key to move the focus or to activate the focused widget.
fn is_focus_key(key: Key) -> bool {
    matches!(
        key,
        Key::Enter
            | Key::Space
            | Key::ArrowUp
            | Key::ArrowDown
            | Key::ArrowLeft
            | Key::ArrowRight
            | Key::Escape
    )
}

/// Speed of panning while a key is held, in windows per second.
const PAN_PER_S: f32 = 0.8;

/// Speed of zooming while a key is held: change of the logarithm of the length per second.
const ZOOM_PER_S: f32 = 1.6;

/// Factor of both speeds with Shift.
const FASTER: f32 = 4.0;

/// Panning and zooming by the keys that are held now.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Held {
    /// Panning speed to the right, in windows per second. Negative: to the left.
    pub pan: f32,
    /// Zooming speed as the logarithm of the factor per second. Positive: in; negative: out.
    pub zoom: f32,
}

impl Held {
    /// Returns true if a key is held.
    pub fn is_any(&self) -> bool {
        *self != Self::default()
    }

    /// Returns the movement in a frame of this duration as a share of the window, for [`crate::model::Window::moved`].
    pub fn pan_share(&self, seconds: f32) -> f64 {
        f64::from(self.pan * seconds.clamp(0.0, 0.1))
    }

    /// Returns the change of the length in a frame of this duration as a factor, for [`crate::model::Window::zoomed`].
    pub fn zoom_factor(&self, seconds: f32) -> f64 {
        f64::from(-self.zoom * seconds.clamp(0.0, 0.1)).exp()
    }
}

/// Returns the panning and zooming of this frame. Requests another frame if a key is held.
pub fn held(ctx: &Context) -> Held {
    if ctx.text_edit_focused() {
        return Held::default();
    }
    // Arrows move the focus when the user navigates with Tab.
    let is_other_focused = ctx.memory(|memory| memory.focused()).is_some();
    let held = ctx.input(|input| {
        let modifiers = input.modifiers;
        if modifiers.command || modifiers.ctrl || modifiers.alt || modifiers.mac_cmd {
            return Held::default();
        }
        // A key that was pressed and released since the last frame counts for one frame.
        let down = |what: CommandId| {
            let mut keys = COMMANDS
                .iter()
                .filter(|command| command.what == what)
                .flat_map(|command| command.keys)
                .map(|shortcut| shortcut.logical_key)
                .filter(|&key| !(is_other_focused && is_focus_key(key)));
            keys.any(|key| input.key_down(key) || input.num_presses(key) > 0)
        };
        let way = |more: CommandId, less: CommandId| f32::from(down(more)) - f32::from(down(less));
        let speed = if modifiers.shift { FASTER } else { 1.0 };
        Held {
            pan: way(CommandId::PanRight, CommandId::PanLeft) * PAN_PER_S * speed,
            zoom: way(CommandId::ZoomIn, CommandId::ZoomOut) * ZOOM_PER_S * speed,
        }
    });
    if held.is_any() {
        ctx.request_repaint();
    }
    held
}

#[cfg(test)]
mod tests {
    use super::*;
    use egui::{Pos2, RawInput, Rect, vec2};
    use std::collections::BTreeSet;

    fn event(key: Key, modifiers: Modifiers) -> Event {
        Event::Key {
            key,
            physical_key: None,
            pressed: true,
            // egui itself computes this: a press without a release in between is a repeat.
            repeat: false,
            modifiers,
        }
    }

    /// Returns the result of `ask` in a frame with these events.
    fn frame<T>(events: Vec<Event>, modifiers: Modifiers, mut ask: impl FnMut(&Context) -> T) -> Option<T> {
        let ctx = Context::default();
        let mut out = None;
        let input = RawInput {
            screen_rect: Some(Rect::from_min_size(Pos2::ZERO, vec2(200.0, 100.0))),
            events: [vec![Event::ModifiersChanged(modifiers)], events].concat(),
            ..RawInput::default()
        };
        let mut output = ctx.run_ui(input, |ui| out = Some(ask(ui.ctx())));
        output.textures_delta.clear();
        out
    }

    #[test]
    fn no_two_commands_share_a_key_a_name_or_an_id() {
        let (mut keys, mut names, mut ids) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for command in COMMANDS {
            assert!(GROUPS.contains(&command.group), "{}", command.group);
            assert!(!command.keys.is_empty());
            assert!(
                names.insert(command.name) && ids.insert(command.id),
                "{}",
                command.id
            );
            for shortcut in command.keys {
                let modifiers = shortcut.modifiers;
                assert!(!modifiers.shift || shift_matters(shortcut.logical_key));
                let text = format!("{:?} {:?}", shortcut.logical_key, modifiers);
                assert!(keys.insert(text.clone()), "{text} is taken: {}", command.name);
                let found: Vec<_> = COMMANDS
                    .iter()
                    .filter(|other| {
                        other
                            .keys
                            .iter()
                            .any(|other| is_pressed(other, shortcut.logical_key, modifiers))
                    })
                    .collect();
                assert_eq!(found.len(), 1, "{text}");
            }
        }
    }

    /// The drawer shows the place of a tab as its key.
    #[test]
    fn the_key_of_a_tab_is_the_digit_of_its_place() {
        for (place, tab) in (1..).zip(PanelTab::ALL) {
            let digit = Key::from_name(&format!("{place}")).map(key);
            let command = COMMANDS
                .iter()
                .find(|command| command.what == CommandId::Tab(tab));
            assert!(
                command.is_some_and(|command| command.keys.first().copied() == digit),
                "{}: its command in this table needs the key {place}",
                tab.name()
            );
        }
    }

    #[test]
    fn every_key_executes_its_command() {
        for command in COMMANDS.iter().filter(|command| !command.what.is_held()) {
            for shortcut in command.keys {
                let events = vec![event(shortcut.logical_key, shortcut.modifiers)];
                let got = frame(events, shortcut.modifiers, |ctx| pressed(ctx, false));
                assert_eq!(got, Some(vec![command.what]), "{}", command.name);
            }
        }
    }

    #[test]
    fn a_text_field_gets_its_keys() {
        for (key, modifiers, expected) in [
            (Key::B, Modifiers::NONE, vec![]),
            (Key::M, Modifiers::SHIFT, vec![]),
            (Key::Z, Modifiers::COMMAND, vec![]),
            (Key::ArrowLeft, Modifiers::ALT, vec![]),
            (Key::P, Modifiers::COMMAND, vec![CommandId::Palette]),
            (Key::F1, Modifiers::NONE, vec![CommandId::Help]),
        ] {
            let got = frame(vec![event(key, modifiers)], modifiers, |ctx| pressed(ctx, true));
            assert_eq!(got, Some(expected), "{key:?}");
        }
    }

    #[test]
    fn only_continuous_commands_repeat_and_events_are_consumed() {
        let events = vec![
            event(Key::B, Modifiers::NONE),
            event(Key::B, Modifiers::NONE),
            event(Key::Period, Modifiers::NONE),
            event(Key::Period, Modifiers::NONE),
            event(Key::Slash, Modifiers::SHIFT),
            event(Key::Q, Modifiers::NONE),
        ];
        let got = frame(events, Modifiers::NONE, |ctx| {
            let first = pressed(ctx, false);
            (
                first,
                pressed(ctx, false),
                ctx.input(|input| input.num_presses(Key::Q)),
            )
        });
        let expected = vec![
            CommandId::ToggleDrawer,
            CommandId::NextInstance,
            CommandId::NextInstance,
            CommandId::Search,
        ];
        assert_eq!(got, Some((expected, vec![], 1)));
    }

    #[test]
    fn held_keys_have_a_speed() {
        let ask = |keys: &[Key], modifiers| {
            let events = keys.iter().map(|&key| event(key, modifiers)).collect();
            frame(events, modifiers, held).unwrap_or_default()
        };
        assert_eq!(ask(&[], Modifiers::NONE), Held::default());
        let right = ask(&[Key::D], Modifiers::NONE);
        assert!(right.pan > 0.0 && right.zoom == 0.0);
        assert!(ask(&[Key::D], Modifiers::SHIFT).pan > right.pan);
        assert_eq!(ask(&[Key::A, Key::D], Modifiers::NONE), Held::default());
        assert!(ask(&[Key::W], Modifiers::NONE).zoom_factor(0.016) < 1.0);
        // Ctrl+S saves a picture.
        assert_eq!(ask(&[Key::S], Modifiers::COMMAND), Held::default());
        // A slow frame must not cause a jump.
        assert!(right.pan_share(5.0) < 0.1);
    }
}
