// The names of a checkpoint's tensors. A tensor is a parameter, or what training keeps beside one:
// `optimizer.<kind>.<parameter>`, `previous.<parameter>` where weights are used one update behind,
// `outer.<parameter>`, the momentum of replicas that make steps by themselves, `error.<parameter>`,
// what thin sums of gradients have left out, or `directions.<parameter>`, what the next one begins with.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "tessera/base/text.hpp"

namespace tessera::checkpoint {

// A number in a file's name, with zeros before it: names sort as numbers do.
inline std::string padded(std::int64_t number, std::size_t digits) {
  const std::string text = cat(number);
  return std::string(text.size() < digits ? digits - text.size() : 0, '0') + text;
}

inline constexpr char kErrorPrefix[] = "error.", kDirectionsPrefix[] = "directions.";
inline constexpr char kOptimizerPrefix[] = "optimizer.", kPreviousPrefix[] = "previous.",
                      kOuterPrefix[] = "outer.";

inline bool is_optimizer_state(std::string_view tensor) { return tensor.starts_with(kOptimizerPrefix); }

inline bool is_parameter(std::string_view tensor) {
  for (const std::string_view prefix :
       {kOptimizerPrefix, kPreviousPrefix, kOuterPrefix, kErrorPrefix, kDirectionsPrefix})
    if (tensor.starts_with(prefix)) return false;
  return true;
}

// The parameter that the tensor is, or belongs to.
inline std::string parameter_of(std::string_view tensor) {
  const bool is_state = is_optimizer_state(tensor);
  if (is_parameter(tensor)) return std::string(tensor);
  tensor.remove_prefix(tensor.find('.') + 1);
  if (is_state) tensor.remove_prefix(tensor.find('.') + 1);
  return std::string(tensor);
}

// "parameters", "optimizer.exp_avg", "previous", "outer", "error", "directions".
inline std::string kind_of(std::string_view tensor) {
  if (is_parameter(tensor)) return "parameters";
  const std::string parameter = parameter_of(tensor);
  return std::string(tensor.substr(0, tensor.size() - std::min(tensor.size(), parameter.size() + 1)));
}

}  // namespace tessera::checkpoint
