#pragma once

namespace tilescope::viewer {

// What Dear ImGui is told of a person, and says of keys: until 1.86 it had them by the numbers of its backend, from 1.89 on by its own,
// and as events. Keys are GLFW's numbers here, as key_of() has them. A frame is told of after its backend has begun it, which asks
// the display where the pointer is.

void tell_key(int key, bool down);
void tell_pointer(double x, double y);
void tell_button(int button, bool down);
void tell_wheel(double x, double y);

/// Once for input that is told; frames take all of it, as Window::begin_frame() leaves it.
void take_input_as_told();

bool key_pressed(int key, bool repeats);
bool key_held(int key);

}  // namespace tilescope::viewer
