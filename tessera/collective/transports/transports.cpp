#include "tessera/collective/transports/transports.hpp"

#include <array>

namespace tessera::collective {

#define TRANSPORT(name, ...) Transport name##_transport();
#include "tessera/spec/transports.def"
#undef TRANSPORT

const Transport& transport(spec::Transport transport) {
#define TRANSPORT(name, ...) name##_transport(),
  static const auto list = std::to_array<Transport>({
#include "tessera/spec/transports.def"
  });
#undef TRANSPORT
  return list.at(static_cast<std::size_t>(transport));
}

spec::Build this_build() {
  spec::Build out{.transports = {}};
  for (const spec::TransportEntry& entry : spec::kTransports)
    if (transport(entry.transport).is_built) out.transports.push_back(entry.transport);
  return out;
}

}  // namespace tessera::collective
