#include "tessera/cli/completion.hpp"

#include <CLI/CLI.hpp>
#include <vector>

#include "tessera/base/text.hpp"
#include "tessera/spec/schema.hpp"

namespace tessera::cli {
namespace {

// Adds a case for the command `path`, such as "checkpoint diff", and for all below it: what may come after
// it.
void add_cases(const CLI::App& app, const std::string& path, std::string& cases) {
  std::vector<std::string> words;
  const auto below = app.get_subcommands([](const CLI::App*) { return true; });
  for (const CLI::App* each : below) words.push_back(each->get_name());
  bool has_keys = false;
  for (const CLI::Option* option : app.get_options()) {
    has_keys = has_keys || option->get_name() == "overrides";
    for (const std::string& name : option->get_lnames()) words.push_back("--" + name);
  }
  cases += cat("    \"", path, "\") echo \"", join(words, " "), has_keys ? " $keys" : "", "\" ;;\n");
  for (const CLI::App* each : below)
    add_cases(*each, path.empty() ? each->get_name() : cat(path, " ", each->get_name()), cases);
}

// A shell takes what stands before and after = for two words, so a key comes with its = and no space.
constexpr char kScript[] = R"sh(_tessera_words() {
  local keys="@KEYS@"
  case "$1" in
@CASES@    *) return 1 ;;
  esac
}
_tessera() {
  local word=${COMP_WORDS[COMP_CWORD]} path="" next i
  for ((i = 1; i < COMP_CWORD; ++i)); do
    next="${path:+$path }${COMP_WORDS[i]}"
    _tessera_words "$next" >/dev/null && path=$next
  done
  COMPREPLY=($(compgen -W "$(_tessera_words "$path")" -- "$word"))
  [[ $word == -* || -z $path ]] || COMPREPLY+=($(compgen -f -- "$word"))
  [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
  return 0
}
complete -F _tessera tessera
)sh";

std::string with(std::string text, const std::string& name, const std::string& value) {
  return text.replace(text.find(name), name.size(), value);
}

}  // namespace

std::string completion_script(const CLI::App& app, const std::string& shell) {
  std::vector<std::string> keys;
  for (const spec::Key& key : spec::schema()) keys.push_back(key.full() + "=");
  std::string cases;
  add_cases(app, "", cases);
  const std::string script = with(with(kScript, "@KEYS@", join(keys, " ")), "@CASES@", cases);
  return shell == "zsh" ? "autoload -U +X bashcompinit && bashcompinit\n" + script : script;
}

}  // namespace tessera::cli
