// The kinds of ops: the lines of ops.def as an enum and a table.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tessera::program {

#define OP(kind, ...) kind,
enum class OpKind : std::uint8_t {
#include "tessera/program/ir/ops.def"
};
#undef OP

enum class ItemOf : std::uint8_t { segment, bucket, number, cell, service };

// What a server does for one of several workers that come when they come; a `turn` waits until it may begin.
enum class Service : std::uint8_t { pull, push, update };
inline constexpr int kNumServices = 3;
enum class Hue : std::uint8_t { blue, orange, yellow, green, purple, vermilion, sky_blue, grey };

struct OpInfo {
  OpKind kind;
  std::string_view name;
  char letter;
  ItemOf item;
  Hue hue;
  std::string_view description;
  bool has_shades;
};

#define OP(kind, name, letter, item, hue, description, has_shades) \
  OpInfo{OpKind::kind, name, letter, ItemOf::item, Hue::hue, description, has_shades},
inline constexpr auto kOps = std::to_array<OpInfo>({
#include "tessera/program/ir/ops.def"
});
#undef OP

inline constexpr int kNumOpKinds = static_cast<int>(kOps.size());

constexpr const OpInfo& info(OpKind kind) { return kOps[static_cast<std::size_t>(kind)]; }

// Whether it is work of a segment.
constexpr bool is_compute(OpKind kind) { return info(kind).item == ItemOf::segment; }
// Whether the op names its cell by kind in its flags.
constexpr bool names_cell(OpKind kind) { return info(kind).item == ItemOf::cell; }

constexpr std::string_view name_of(OpKind kind) { return info(kind).name; }
constexpr std::optional<OpKind> op_kind_named(std::string_view name) {
  for (const OpInfo& op : kOps)
    if (op.name == name) return op.kind;
  return std::nullopt;
}
constexpr std::optional<OpKind> op_kind_of(char letter) {
  for (const OpInfo& op : kOps)
    if (op.letter == letter) return op.kind;
  return std::nullopt;
}

}  // namespace tessera::program
