#include "tessera/cli/unknown_option.hpp"

#include <algorithm>
#include <optional>

#include "tessera/base/text.hpp"
#include "tessera/spec/schema.hpp"
#include "tessera/spec/unknown_key.hpp"

namespace tessera::cli {

namespace {

// The command that was named, such as the `inspect` of `tessera checkpoint inspect`.
const CLI::App& named_command(const CLI::App& app) {
  const CLI::App* at = &app;
  while (!at->get_subcommands().empty()) at = at->get_subcommands().front();
  return *at;
}

std::vector<std::string> options_of(const CLI::App& command) {
  std::vector<std::string> out;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) out.push_back("--" + name);
  return out;
}

// A key, by its own name ("--steps") or by what others call it, and how it is written. Nothing: there is
// none.
std::optional<std::string> key_for(const std::string& option, const std::string& value) {
  std::string name = option.substr(option.find_first_not_of('-'));
  std::ranges::replace(name, '-', '_');
  const std::string written = value.empty() ? "..." : value;
  for (const auto& key : spec::schema())
    if (key.name == name || key.full() == name) return cat(key.full(), "=", written);
  const spec::OtherName* other = spec::found_elsewhere(option);
  return other ? std::optional(to_text(*other, written)) : std::nullopt;
}

}  // namespace

std::string unknown_option(const CLI::App& app, const std::vector<std::string>& argv) {
  const CLI::App& command = named_command(app);
  const std::vector<std::string> known = options_of(command);
  const bool takes_keys = command.get_option_no_throw("overrides") != nullptr;
  for (std::size_t i = 1; i < argv.size(); ++i) {
    const auto equals = argv[i].find('=');
    const std::string name = argv[i].substr(0, equals);
    if (!name.starts_with("--") || name.size() < 3 || std::ranges::count(known, name) > 0) continue;
    const bool has_value =
        i + 1 < argv.size() && !argv[i + 1].starts_with("--") && argv[i + 1].find('=') == std::string::npos;
    const std::string value = equals != std::string::npos ? argv[i].substr(equals + 1)
                              : has_value                 ? argv[i + 1]
                                                          : "";
    const std::string command_name = cat(&command == &app ? "" : app.get_name() + " ", command.get_name());
    const std::string about = cat(command_name, " has no option ", name);
    const auto key = takes_keys ? key_for(name, value) : std::nullopt;
    const auto near = nearest(name, known);
    return cat(about, key ? cat("; write ", *key, ".") : did_you_mean(near), " See ", command_name,
               " --help.");
  }
  return "";
}

}  // namespace tessera::cli
