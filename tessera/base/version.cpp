#include "tessera/base/version.hpp"

namespace tessera {

const char kVersion[] = TESSERA_VERSION;

}  // namespace tessera
