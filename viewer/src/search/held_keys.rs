//! Identifies released keys. If Shift is released first, the release of `+` is reported as `=`, and `+` would count as
//! held forever.
//!
//! egui identifies keys by the character that they type. This module identifies them by their physical place. Until its
//! release, a key keeps the name that it had when it was pressed.

use egui::{Event, Key};
use std::collections::HashMap;

/// Held keys: for each physical place, the name of the key when it was pressed.
#[derive(Debug, Default)]
pub struct HeldKeys {
    down: HashMap<Key, Key>,
}

impl HeldKeys {
    /// Renames keys in the events of a frame.
    pub fn rename(&mut self, events: &mut [Event]) {
        for event in events {
            match event {
                Event::Key {
                    key,
                    physical_key: Some(place),
                    pressed: true,
                    ..
                } => *key = *self.down.entry(*place).or_insert(*key),
                Event::Key {
                    key,
                    physical_key: Some(place),
                    pressed: false,
                    ..
                } => *key = self.down.remove(place).unwrap_or(*key),
                // Releases in another window are not reported.
                Event::WindowFocused(_) => self.down.clear(),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::keys::{CommandId, held, pressed};
    use egui::{Context, Modifiers, RawInput};

    fn event(key: Key, place: Key, pressed: bool, shift: bool) -> Event {
        Event::Key {
            key,
            physical_key: Some(place),
            pressed,
            repeat: false,
            modifiers: Modifiers {
                shift,
                ..Modifiers::NONE
            },
        }
    }

    /// Shift down, key down, Shift up, key up: the order of fast typing.
    #[test]
    fn shift_may_be_released_first() {
        let ctx = Context::default();
        let mut keys = HeldKeys::default();
        let mut frame = |mut events: Vec<Event>| {
            keys.rename(&mut events);
            let input = RawInput {
                events,
                ..RawInput::default()
            };
            let mut state = (false, Vec::new());
            let mut output = ctx.run_ui(input, |ui| {
                state = (held(ui.ctx()).is_any(), pressed(ui.ctx(), false));
            });
            output.textures_delta.clear();
            state
        };
        assert!(frame(vec![event(Key::Plus, Key::Equals, true, true)]).0);
        // Key repeats are reported with the character that the key types now.
        assert!(frame(vec![event(Key::Equals, Key::Equals, true, false)]).0);
        frame(vec![event(Key::Equals, Key::Equals, false, false)]);
        assert!(!frame(Vec::new()).0, "let go");
        for _ in 0..3 {
            let (_, state) = frame(vec![event(Key::Questionmark, Key::Slash, true, true)]);
            assert_eq!(state, [CommandId::Help]);
            frame(vec![event(Key::Slash, Key::Slash, false, false)]);
        }
        // Without Shift the key means another command.
        let (_, state) = frame(vec![event(Key::Slash, Key::Slash, true, false)]);
        assert_eq!(state, [CommandId::Search]);
        // The window lost the focus while a key was down.
        frame(vec![event(Key::Plus, Key::Equals, true, true)]);
        frame(vec![Event::WindowFocused(false)]);
        let (_, state) = frame(vec![event(Key::Slash, Key::Equals, true, false)]);
        assert_eq!(state, [CommandId::Search]);
    }
}
