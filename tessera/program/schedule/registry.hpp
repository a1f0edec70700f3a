// The schedules by name: the lines of schedules.def as a table.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "tessera/program/schedule/schedules.hpp"

namespace tessera::program {

struct Traits {
  std::int32_t least_micro_per_rank = 0;
  std::string_view instead = {};  // which schedule runs if there are fewer
  bool holds_all = false;         // activations of every micro-batch at once
  bool is_search = false;         // has no order of its own
  bool is_delayed = false;        // computes with weights one update behind
  bool is_paired = false;         // a forward and the backward behind it are meant to take turns
};

struct ScheduleEntry {
  std::string_view name;
  Order (*order)(const Pipeline&);
  std::uint32_t num_virtual;
  Traits traits;
};

#define SCHEDULE(name, function, num_virtual, ...) \
  ScheduleEntry{name, function, num_virtual, Traits{__VA_ARGS__}},
inline constexpr auto kSchedules = std::to_array<ScheduleEntry>({
#include "tessera/program/schedule/schedules.def"
});
#undef SCHEDULE

// The place of a name in kSchedules.
constexpr std::optional<std::size_t> schedule_index(std::string_view name) {
  for (std::size_t i = 0; i < kSchedules.size(); ++i)
    if (kSchedules[i].name == name) return i;
  return std::nullopt;
}

}  // namespace tessera::program
