// Do templates write here what they write in Python's Jinja? Ours, with the ways of templates in use: turns
// that are checked, namespaces, tool calls, lists read backwards, white space of every kind. Costs about 1 s.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tessera/base/error.hpp"
#include "tessera/base/files/file_text.hpp"
#include "tessera/data/chat/chat_template.hpp"

namespace tessera::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConversations[] = {
    R"([{"role": "user", "content": "Hi"}])",
    R"([{"role": "system", "content": " Be brief.\n"}, {"role": "user", "content": "a\nb \u00e9"},)"
    R"( {"role": "assistant", "content": "x"}])",
    R"([{"role": "user", "content": "q"}, {"role": "assistant", "content": "<think>\nm\n</think>\n\na"},)"
    R"( {"role": "user", "content": "<tool>r</tool>"}])",
    R"([{"role": "user", "content": "q"}, {"role": "assistant", "content": null, "tool_calls":)"
    R"( [{"name": "f", "arguments": {"x": [1, "\u00e9"], "y": null}}, {"name": "g", "arguments": {}}]}])",
    R"([{"role": "assistant", "content": "first"}, {"role": "tool", "content": "", "id": 7}])"};

TEST(ChatTemplate, WritesWhatJinjaWrites) {
  const fs::path folder = fs::path(testing::TempDir()) / cat("tessera_chat_", ::getpid());
  fs::create_directories(folder);
  fs::copy("tests/data/templates", folder);
  for (const char* name : {"chatml", "llama3", "mistral"})
    std::ofstream(folder / cat(name, ".jinja")) << chat_template_text(name);
  {
    std::ofstream file(folder / "conversations.jsonl");
    for (const char* conversation : kConversations) file << conversation << "\n";
  }
  ASSERT_EQ(std::system(cat(".venv/bin/python tests/data/chat_texts.py ", folder.string()).c_str()), 0);
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".jinja") paths.push_back(entry.path());
  std::ranges::sort(paths);
  std::ifstream expected(folder / "expected.jsonl");
  int compared = 0, refused = 0;
  for (const fs::path& path : paths) {
    const ChatTemplate chat(file_text(path), path.filename(), {{"bos_token", "<s>"}, {"eos_token", "</s>"}});
    for (const char* line : kConversations)
      for (const bool prompt : {false, true}) {
        std::string text, theirs;
        ASSERT_TRUE(std::getline(expected, theirs));
        try {
          text = chat.render(Json::parse(line), prompt);
        } catch (const UserError& error) {
          text = "refused";
        }
        EXPECT_EQ(text, Json::parse(theirs).get<std::string>()) << path << "\n" << line;
        ++compared;
        refused += text == "refused";
      }
  }
  EXPECT_EQ(compared, 60);
  EXPECT_LT(refused, 20);
  fs::remove_all(folder);
}

}  // namespace
}  // namespace tessera::data
