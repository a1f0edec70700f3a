#include "tessera/base/process/process_stat.hpp"

#include <sstream>

#include "tessera/base/files/file_text.hpp"
#include "tessera/base/text.hpp"

namespace tessera {

std::vector<std::string> process_stat(int pid) {
  const std::string text = file_text(cat("/proc/", pid, "/stat"));
  const auto name_end = text.rfind(')');  // the name may hold anything
  if (name_end == text.npos) return {};
  std::istringstream rest(text.substr(name_end + 1));
  std::vector<std::string> words;
  for (std::string word; rest >> word;) words.push_back(word);
  return words;
}

}  // namespace tessera
