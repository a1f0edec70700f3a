#include "tessera/planner/pins.hpp"

#include <algorithm>

#include "tessera/base/text.hpp"
#include "tessera/spec/schema.hpp"

namespace tessera::planner {

Pins::Pins(const std::vector<std::string>& overrides) {
  constexpr std::string_view kSection = "layout.";
  for (const std::string& text : overrides) {
    const std::string full = text.substr(0, text.find('='));
    if (!full.starts_with(kSection)) continue;
    for (const spec::Key& key : spec::schema())
      if (key.section == "layout" && (key.full() == full || cat(kSection, key.former_name) == full))
        names_.insert(key.name);
  }
  // Every layout of the search has the run's precision.
  for (const char* name : {"precision", "automatic"}) names_.erase(name);
}

spec::Layout Pins::base(const spec::Run& given) const {
  spec::Run out = given;
  out.layout = {.precision = given.layout.precision};
  for (const std::string& name : names_)
    if (const spec::Key* key = spec::find_key(cat("layout.", name)); key && name != "dp")
      key->set(out, key->get(given));
  return out.layout;
}

bool Pins::allow(const spec::Run& run, const spec::Run& given) const {
  return std::ranges::all_of(names_, [&](const std::string& name) {
    if (name == "dp") return run.layout.dp() == given.layout.dp();
    const spec::Key* key = spec::find_key(cat("layout.", name));
    return key->get(run) == key->get(given);
  });
}

std::string Pins::text(const spec::Run& given) const {
  std::vector<std::string> words;
  for (const std::string& name : names_)
    words.push_back(name == "dp" ? cat("layout.dp = ", given.layout.dp())
                                 : cat("layout.", name, " = ",
                                       spec::value_text(spec::find_key(cat("layout.", name))->get(given))));
  return join(words, ", ");
}

}  // namespace tessera::planner
