#include "tessera/spec/load.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "tessera/base/error.hpp"
#include "tessera/spec/entries.hpp"
#include "tessera/spec/schema.hpp"
#include "tessera/spec/unknown_key.hpp"

namespace tessera::spec {

namespace {

// A shell eats quotes, so texts and words may stand bare: what is no TOML text is taken as it is written.
Entry override_entry(const std::string& text) {
  Entry entry{.where = cat("override '", text, "'")};
  const auto equals = text.find('=');
  if (equals == std::string::npos) throw UserError(cat(entry.where, ": wants section.key=value"));
  const std::string full = text.substr(0, equals);
  const std::string raw = text.substr(equals + 1);
  const auto dot = full.find('.');
  if (dot != std::string::npos) entry.section = full.substr(0, dot);
  entry.name = dot == std::string::npos ? full : full.substr(dot + 1);
  entry.found = raw;
  entry.value = read_value(raw);
  const Key* key = find_key(full);
  const bool is_text = entry.value && std::holds_alternative<std::string>(*entry.value);
  if (key && (key->kind == Kind::text || key->kind == Kind::word) && !is_text) {
    entry.value = read_value(value_text(Value(raw)));
  }
  return entry;
}

// Empty when the entry is fine.
std::string applied(const Entry& entry, Run& run) {
  const Key* key = find_key(cat(entry.section, ".", entry.name));
  if (!key) {
    const bool empty_section = entry.name.empty() && is_section(entry.section);
    return empty_section ? "" : cat(entry.where, ": ", unknown_key(entry.section, entry.name));
  }
  auto value = entry.value ? fitted(*key, *entry.value) : std::nullopt;
  if (value && entry.name == key->former_name && key->former_unit > 1)  // within the key's range: no overflow
    value = fitted(*key, std::get<std::int64_t>(*value) * key->former_unit);
  if (!value) return cat(entry.where, ": ", key->full(), " = ", entry.found, ": wants ", allowed(*key));
  key->set(run, *value);
  return "";
}

// What a family's published models have where the run file says nothing.
void set_family_defaults(Model& model) { model.tied_embeddings = traits(model.family).ties_embeddings; }

// What a run decides about a model whose architecture is given.
bool is_of_the_run(std::string_view name) {
  constexpr std::array<std::string_view, 5> kNames = {"sequence", "init_std", "dropout", "weights",
                                                      "follow_links"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

// Empty when the entry says what the weights say, or something that they leave open.
std::string contradiction(const Entry& entry, const Described& described) {
  const Key* key = entry.section == "model" ? find_key(cat("model.", entry.name)) : nullptr;
  if (!key || is_of_the_run(key->name)) return "";
  Run asked, given;
  asked.model = given.model = described.model;
  if (!applied(entry, asked).empty() || key->get(asked) == key->get(given)) return "";
  if (key->name == "head_dim" && asked.model.head_size() == given.model.head_size()) return "";
  return cat(entry.where, ": ", key->full(), " = ", entry.found, " contradicts ", described.where,
             ", which says ", value_text(key->get(given)), ": leave it out, or take other weights");
}

// Samples are no longer than the weights can take; where no length is asked for, that is a reason for a
// shorter one.
std::string fitted_sequence(const std::vector<Entry>& entries, const Described& described, Model& model) {
  const std::int64_t most = described.max_positions;
  const bool is_asked = std::any_of(entries.begin(), entries.end(), [](const Entry& entry) {
    return entry.section == "model" && entry.name == "sequence";
  });
  if (!is_asked) model.sequence = std::min(model.sequence, most);
  if (model.sequence <= most) return "";
  return cat("model.sequence = ", model.sequence, " is above the ", most, " positions that ", described.where,
             " allows: write model.sequence = ", most, " or less");
}

// The mistakes of entries that differ from what the weights say.
std::vector<std::string> contradictions(const std::vector<Entry>& entries, const Described& described,
                                        Model& model) {
  std::vector<std::string> out;
  for (const auto& entry : entries)
    if (auto text = contradiction(entry, described); !text.empty()) out.push_back(std::move(text));
  if (auto text = fitted_sequence(entries, described, model); !text.empty()) out.push_back(std::move(text));
  return out;
}

// layout.dp, which stands for one of two keys. Empty when they do not contradict it.
std::string spread_over_dp(Layout& layout) {
  if (layout.dp_ranks == 0) return "";
  // Replicas are whole: only ranks that share something can share experts, or have servers.
  const bool shards = layout.zero > 0 || layout.servers > 0 || layout.ep * layout.etp > 1;
  if (layout.dp() != 1)
    return cat("layout.dp = ", layout.dp_ranks, " stands for layout.", shards ? "dp_shard" : "dp_replicate",
               ", and layout.dp_replicate = ", layout.dp_replicate,
               " and layout.dp_shard = ", layout.dp_shard, " are given too: write dp or these two");
  (shards ? layout.dp_shard : layout.dp_replicate) = layout.dp_ranks;
  layout.dp_ranks = 0;
  return "";
}

constexpr std::array<std::string_view, 3> kNeededFirst = {"family", "weights",
                                                          "follow_links"};  // keys of [model]
constexpr std::size_t kMostMistakes = 20;  // a file of another kind has one a line

Run resolved(std::vector<Entry> entries, std::span<const std::string> overrides, const Describe& describe) {
  const auto num_in_files = static_cast<std::ptrdiff_t>(entries.size());
  for (const auto& text : overrides) entries.push_back(override_entry(text));
  Run run;
  for (const auto& entry : entries)
    if (entry.section == "model" && std::ranges::count(kNeededFirst, entry.name) > 0) applied(entry, run);
  set_family_defaults(run.model);
  std::optional<Described> described;
  if (describe && !run.model.weights.empty()) described = describe(run.model);
  if (described) run.model = described->model;
  std::vector<std::string> mistakes;
  const auto apply = [&](const Entry& entry) {
    if (auto mistake = applied(entry, run); !mistake.empty()) mistakes.push_back(std::move(mistake));
  };
  for (const auto& entry : entries) {
    if (mistakes.size() == kMostMistakes) break;
    if (entry.section.empty() && entry.name == "layout" && entry.value == Value(std::string("auto"))) {
      run.layout.automatic = true;
      continue;
    }
    // Of an unknown section in a file only the heading is reported, not each key below it.
    const bool is_override = &entry - entries.data() >= num_in_files;
    if (is_override || entry.name.empty() || entry.section.empty() || is_section(entry.section)) apply(entry);
  }
  if (described)
    for (auto& text : contradictions(entries, *described, run.model)) mistakes.push_back(std::move(text));
  if (auto mistake = spread_over_dp(run.layout); !mistake.empty()) mistakes.push_back(std::move(mistake));
  if (mistakes.size() >= kMostMistakes) mistakes.push_back("Mistakes after these are not listed.");
  if (!mistakes.empty()) throw UserError(join(mistakes, "\n"));
  return run;
}

Run validated(Run run, const Build& build) {
  validate(run, build);
  return run;
}

}  // namespace

Run load_unchecked(const std::filesystem::path& path, std::span<const std::string> overrides,
                   const Describe& describe) {
  return resolved(entries_of_file(path), overrides, describe);
}

Run parse_unchecked(std::string_view text, const std::string& name, std::span<const std::string> overrides,
                    const Describe& describe) {
  return resolved(entries_of_text(text, name), overrides, describe);
}

Run load(const std::filesystem::path& path, std::span<const std::string> overrides, const Describe& describe,
         const Build& build) {
  return validated(load_unchecked(path, overrides, describe), build);
}

Run parse(std::string_view text, const std::string& name, std::span<const std::string> overrides,
          const Describe& describe, const Build& build) {
  return validated(parse_unchecked(text, name, overrides, describe), build);
}

namespace {

// The keys that are printed, section by section; a section of which none is printed is left out.
std::string printed(const Run& run, const std::function<bool(const Key&)>& is_printed) {
  std::string out;
  for (const auto& section : sections()) {
    std::string lines;
    for (const auto& key : schema())
      if (key.section == section.name && is_printed(key))
        lines += cat(key.name, " = ", value_text(key.get(run)), "\n");
    if (!lines.empty()) out += cat(out.empty() ? "" : "\n", "[", section.name, "]\n", lines);
  }
  return out;
}

}  // namespace

std::string to_text(const Run& run) {
  return printed(run, [](const Key&) { return true; });
}

std::string to_short_text(const Run& run) {
  const auto differs_from = [&](const Run& other, const Key& key) { return key.get(run) != key.get(other); };
  const Run usual;
  const std::string text = printed(run, [&](const Key& key) { return differs_from(usual, key); });
  // What is left out may follow from other keys: as many key heads as heads.
  const Run read = parse_unchecked(text, "the run");
  return printed(run, [&](const Key& key) { return differs_from(usual, key) || differs_from(read, key); });
}

}  // namespace tessera::spec
