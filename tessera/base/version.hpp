// The version of Tessera.
#pragma once

namespace tessera {

// "0.1", of the root CMakeLists.txt.
extern const char kVersion[];

}  // namespace tessera
