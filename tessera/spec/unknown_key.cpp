#include "tessera/spec/unknown_key.hpp"

#include <algorithm>
#include <cctype>

#include "tessera/base/text.hpp"
#include "tessera/spec/schema.hpp"

namespace tessera::spec {
namespace {

std::string unknown_section(const std::string& section) {
  std::vector<std::string> names;
  for (const auto& known : sections()) names.push_back(known.name);
  return cat("unknown section ", section, did_you_mean(nearest(section, names)), " The sections are ",
             join(names, ", "), ".");
}

}  // namespace

const std::vector<OtherName>& other_names() {
  static const std::vector<OtherName> list = {
#define TESSERA_NAMES(ours, names, note) {ours, split_list(names), note},
#include "tessera/spec/other_names.def"
#undef TESSERA_NAMES
  };
  return list;
}

const OtherName* found_elsewhere(std::string_view name) {
  if (const auto point = name.rfind('.'); point != std::string_view::npos) name = name.substr(point + 1);
  name = name.substr(std::min(name.find_first_not_of('-'), name.size()));
  std::string plain;
  for (const char c : name)
    plain += c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const auto found = std::ranges::find_if(
      other_names(), [&](const OtherName& other) { return std::ranges::count(other.names, plain) > 0; });
  return found == other_names().end() ? nullptr : &*found;
}

std::string to_text(const OtherName& other, const std::string& value) {
  const bool is_key = !other.ours.starts_with("--");
  return cat(other.ours, is_key && !value.empty() ? "=" + value : "",
             other.note.empty() ? "" : cat(" (", other.note, ")"));
}

// A key put in the wrong section is found by its name alone, then by what others call it, before spelling is
// considered.
std::string unknown_key(const std::string& section, const std::string& name) {
  if (!section.empty() && !is_section(section)) return unknown_section(section);
  if (section.empty() && is_section(name))
    return cat(name, " is a section: write [", name, "] above its keys");
  std::vector<std::string> in_section, all;
  std::optional<std::string> near;
  for (const auto& key : schema()) {
    all.push_back(key.full());
    if (key.section == section) in_section.push_back(key.name);
    if (key.name == name && !near) near = key.full();
  }
  const std::string full = section.empty() ? name : cat(section, ".", name);
  const OtherName* other = near ? nullptr : found_elsewhere(name);
  if (other) return cat("unknown key ", full, "; here that is ", to_text(*other), ".");
  // Within its section the shared prefix must not make a far name look near.
  if (!near && !section.empty()) {
    near = nearest(name, in_section);
    if (near) near = cat(section, ".", *near);
  } else if (!near) {
    near = nearest(full, all);
  }
  return cat("unknown key ", full, did_you_mean(near));
}

}  // namespace tessera::spec
