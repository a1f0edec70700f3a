// The ways in which ranks talk, by name: the lines of transports.def as a table.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tessera::spec {

#define TRANSPORT(name, ...) name,
enum class Transport : std::uint8_t {
#include "tessera/spec/transports.def"
};
#undef TRANSPORT

struct TransportTraits {
  bool is_one_process = false;  // the ranks are its threads
  bool uses_gpus = false;
  std::string_view needs = {};  // what not every build is; empty: every build has it
};

struct TransportEntry {
  Transport transport;
  std::string_view name;
  TransportTraits traits;
};

#define TRANSPORT(name, ...) TransportEntry{Transport::name, #name, TransportTraits{__VA_ARGS__}},
inline constexpr auto kTransports = std::to_array<TransportEntry>({
#include "tessera/spec/transports.def"
});
#undef TRANSPORT

constexpr const TransportTraits& traits(Transport transport) {
  return kTransports[static_cast<std::size_t>(transport)].traits;
}

}  // namespace tessera::spec
