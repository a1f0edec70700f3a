// Which Tessera is this?
#pragma once

namespace tessera {

// "0.1", of the root CMakeLists.txt.
extern const char kVersion[];

}  // namespace tessera
