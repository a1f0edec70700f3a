#include "tessera/checkpoint/tools/diff.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "tessera/base/error.hpp"
#include "tessera/checkpoint/format/element.hpp"
#include "tessera/checkpoint/format/safetensors.hpp"
#include "tessera/spec/toml_file.hpp"

namespace tessera::checkpoint {

namespace {

constexpr std::int64_t kComparedBytes = 4 << 20;

std::string form_of(const Tensor& tensor) {
  std::vector<std::string> sizes;
  for (const std::int64_t size : tensor.shape) sizes.push_back(cat(size));
  return cat(tensor.dtype, " [", join(sizes, ", "), "]");
}

// Adds what the elements of one block say.
void compare(std::span<const std::byte> a, std::span<const std::byte> b, std::size_t element,
             ElementReader read, TensorDifference& out) {
  if (std::memcmp(a.data(), b.data(), a.size()) == 0) return;
  for (std::size_t at = 0; at < a.size(); at += element) {
    if (std::memcmp(&a[at], &b[at], element) == 0) continue;
    ++out.differing;
    const double x = read(&a[at]), y = read(&b[at]), gap = std::abs(x - y);
    const double larger = std::max(std::abs(x), std::abs(y));
    const bool is_number = std::isfinite(gap);
    const double infinite = std::numeric_limits<double>::infinity();
    out.absolute = std::max(out.absolute, is_number ? gap : infinite);
    out.relative = std::max(out.relative, !is_number ? infinite : larger > 0 ? gap / larger : 0);
  }
}

// What two sorted maps of texts do not share.
std::vector<KeyDifference> differences(const std::map<std::string, std::string>& a,
                                       const std::map<std::string, std::string>& b) {
  std::vector<KeyDifference> out;
  for (const auto& [key, value] : a) {
    const auto other = b.find(key);
    const std::string second = other == b.end() ? "" : other->second;
    if (value != second) out.push_back({key, value, second});
  }
  for (const auto& [key, value] : b)
    if (!a.contains(key)) out.push_back({key, "", value});
  return out;
}

std::map<std::string, std::string> state_of(const Progress& p) {
  return {{"step", cat(p.step)},
          {"updates", cat(p.updates)},
          {"next_sample", cat(p.next_sample)},
          {"seed", cat(p.seed)},
          {"loss_scale", cat(p.loss_scale)},
          {"good_steps", cat(p.good_steps)},
          {"reset_after", cat(p.reset_after)}};
}

std::map<std::string, std::string> config_of(const Checkpoint& checkpoint) {
  std::map<std::string, std::string> out;
  for (const spec::Entry& entry : spec::read_toml(checkpoint.manifest().config, checkpoint.folder()))
    if (!entry.name.empty()) out[cat(entry.section, ".", entry.name)] = entry.found;
  return out;
}

// Reading of both, block by block.
struct Comparison {
  Checkpoint &first, &second;
  const Told& told;
  std::uint64_t all = 0, done = 0;
  std::vector<std::byte> a, b;

  TensorDifference tensor(const std::string& name, const Tensor& tensor) {
    TensorDifference out{.name = name, .elements = num_elements(tensor.shape)};
    const auto element = static_cast<std::int64_t>(element_bytes(tensor.dtype).value());
    for_each_block(whole_box(tensor.shape), kComparedBytes / element, [&](const Box& box) {
      a.resize(static_cast<std::size_t>(box.elements() * element));
      b.resize(a.size());
      first.read(name, box, a);
      second.read(name, box, b);
      compare(a, b, static_cast<std::size_t>(element), element_reader(tensor.dtype), out);
      done += a.size();
      if (told) told(done, all);
    });
    return out;
  }
};

}  // namespace

bool Difference::equal() const {
  const bool same_config = std::ranges::all_of(config, [](const KeyDifference& difference) {
    return std::ranges::any_of(std::array{"layout.", "cluster.", "checkpoint."},
                               [&](const char* section) { return difference.key.starts_with(section); });
  });
  return only_first.empty() && only_second.empty() && other_form.empty() && tensors.empty() &&
         state.empty() && same_config;
}

Difference diff(Checkpoint& first, Checkpoint& second, const Told& told) {
  const Manifest &a = first.manifest(), &b = second.manifest();
  Difference out{.state = differences(state_of(a.progress), state_of(b.progress)),
                 .config = differences(config_of(first), config_of(second))};
  Comparison comparison{.first = first, .second = second, .told = told};
  std::vector<std::string> common;
  for (const std::string& name : tensors_in_file_order(a)) {
    const Tensor& tensor = a.tensors.at(name);
    const auto other = b.tensors.find(name);
    if (other == b.tensors.end()) {
      out.only_first.push_back(name);
    } else if (tensor != other->second) {
      out.other_form.push_back({name, form_of(tensor), form_of(other->second)});
    } else {
      common.push_back(name);
      comparison.all += bytes_of(tensor);
    }
  }
  for (const auto& [name, tensor] : b.tensors)
    if (!a.tensors.contains(name)) out.only_second.push_back(name);
  for (const std::string& name : common) {
    TensorDifference found = comparison.tensor(name, a.tensors.at(name));
    if (found.differing > 0)
      out.tensors.push_back(std::move(found));
    else
      ++out.num_equal;
  }
  std::ranges::sort(out.only_first);
  std::ranges::sort(out.other_form, {}, &KeyDifference::key);
  std::ranges::sort(out.tensors, {}, &TensorDifference::name);
  return out;
}

}  // namespace tessera::checkpoint
