// The transports by their place in spec/transports.def.
#pragma once

#include "tessera/collective/transport.hpp"
#include "tessera/spec/problems.hpp"
#include "tessera/spec/transport.hpp"

namespace tessera::collective {

const Transport& transport(spec::Transport transport);

// What this build can do with run files.
spec::Build this_build();

}  // namespace tessera::collective
