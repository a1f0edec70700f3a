// Whether text becomes the right pair, whatever the threads and however often it is stopped. Costs about 3 s.
#include "tessera/data/tokenize/tokenize.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>

#include "tessera/base/error.hpp"
#include "tessera/base/files/file_text.hpp"
#include "tessera/base/random.hpp"
#include "tessera/base/testing/test_folder.hpp"
#include "tessera/data/indexed/indexed_file.hpp"
#include "tessera/data/tokenize/note.hpp"

namespace tessera::data {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::ThrowsMessage;

class Tokenizing : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_.path(name); }
  std::string file(const std::string& name, const std::string& bytes) const {
    return folder_.write(name, bytes);
  }
  TokenizeOptions options(const std::string& output, std::vector<std::string> inputs) const {
    return {.inputs = std::move(inputs), .output = path(output), .tokenizer = "bytes"};
  }
  TokenizeSummary run(const TokenizeOptions& options) const {
    return *tokenize(
        options, *tokenizer_, [](auto, auto) {}, [] { return false; });
  }
  // Documents as text, of the pair.
  std::vector<std::string> texts(const std::string& name) const {
    const IndexedFile pair(path(name));
    std::vector<std::string> out;
    for (std::uint64_t i = 0; i < pair.num_documents(); ++i) {
      std::vector<std::int64_t> tokens(pair.length(i));
      pair.read(pair.begin(i), tokens);
      out.emplace_back(tokens.begin(), tokens.end());
    }
    return out;
  }
  std::string bytes_of(const std::string& name) const {
    return file_text(path(name + ".idx")) + file_text(path(name + ".bin")) +
           file_text(path(name + ".mask.bin"));
  }

  std::unique_ptr<tokenizer::Tokenizer> tokenizer_ = tokenizer::open_tokenizer("bytes");

 private:
  TestFolder folder_;
};

std::string json_lines(std::uint64_t seed, std::size_t count) {
  std::string out;
  for (std::size_t i = 0; i < count; ++i)
    out += cat("{\"text\": \"", i, " ", std::string(random_bits(seed, 1, i) % 90, 'x'), "\", \"id\": ", i,
               "}\n");
  return out;
}

TEST_F(Tokenizing, ReadsPlainTextAndJsonLines) {
  auto plain = options("plain", {file("a.txt", "one\n\ntwo\nthree\n")});
  plain.record.field = "";
  run(plain);
  EXPECT_EQ(texts("plain"), (std::vector<std::string>{"one", "two", "three"}));
  plain.output = path("paragraphs");
  plain.record_end = RecordEnd::blank_line;
  plain.end_of_document = '.';
  const TokenizeSummary sum = run(plain);
  EXPECT_EQ(texts("paragraphs"), (std::vector<std::string>{"one.", "two\nthree."}));
  EXPECT_EQ(sum, (TokenizeSummary{.records = 2,
                                  .documents = 2,
                                  .tokens = 14,
                                  .counted_tokens = 14,
                                  .text_bytes = 12,
                                  .lengths = sum.lengths}));
  EXPECT_EQ(sum.lengths.counts()[3], 1u);
  auto json = options("json", {file("a.jsonl", R"({"id": 1, "body": "a\u00e9"})"
                                               "\n"
                                               R"({"body": ""})"
                                               "\n")});
  json.record.field = "body";
  EXPECT_EQ(run(json).empty, 1u);
  EXPECT_EQ(texts("json"), (std::vector<std::string>{"a\u00e9"}));
  EXPECT_FALSE(fs::exists(path("json.mask.idx")));
}

TEST_F(Tokenizing, CompletionsAndMessagesHaveAMask) {
  auto pairs = options("pairs", {file("p.jsonl", R"({"prompt": "2+2=", "completion": "4"})"
                                                 "\n")});
  pairs.record.kind = RecordKind::completion;
  pairs.end_of_document = 0;
  EXPECT_EQ(run(pairs).counted_tokens, 2u);
  EXPECT_EQ(texts("pairs"), (std::vector<std::string>{std::string("2+2=4\0", 6)}));
  EXPECT_EQ(texts("pairs.mask"), (std::vector<std::string>{std::string("\0\0\0\0\1\1", 6)}));
  auto chat = options("chat", {file("m.jsonl", R"({"messages": [{"role": "user", "content": "a"},)"
                                               R"( {"role": "assistant", "content": "bc"}]})"
                                               "\n")});
  chat.record.kind = RecordKind::messages;
  chat.record.chat = std::make_shared<ChatTemplate>(
      "{% for m in messages %}{{ m.content }}|{% endfor %}{% if add_generation_prompt %}>{% endif %}", "x");
  EXPECT_THROW(run(chat), UserError) << "the prompt for an answer does not stand before the answer";
  fs::remove(note_path(chat.output));
  chat.record.chat =
      std::make_shared<ChatTemplate>("{% for m in messages %}{{ m.content }}|{% endfor %}", "x");
  run(chat);
  EXPECT_EQ(texts("chat"), (std::vector<std::string>{"a|bc|"}));
  EXPECT_EQ(texts("chat.mask"), (std::vector<std::string>{std::string("\0\0\1\1\1", 5)}));
}

TEST_F(Tokenizing, ABrokenRecordIsNamedOrSkipped) {
  const auto refused = [&](const std::string& line, const std::string& part) {
    auto given = options("broken", {file("b.jsonl", "{\"text\": \"a\"}\n\n" + line + "\n")});
    EXPECT_THAT([&] { run(given); },
                ThrowsMessage<UserError>(testing::AllOf(HasSubstr("b.jsonl', line 3: "), HasSubstr(part))));
    given.skip_broken = true;
    fs::remove(note_path(given.output));
    EXPECT_EQ(run(given).broken, 1u);
    EXPECT_EQ(texts("broken"), (std::vector<std::string>{"a"}));
    fs::remove(path("broken.idx")), fs::remove(path("broken.bin"));
  };
  refused("{\"text\": ", "it is no JSON: parse error at line 1, column 10");
  refused("[1]", "it is a JSON array, not an object");
  refused("{\"body\": 1, \"id\": 2}", "it has no field \"text\"; it has body, id");
  refused("{\"text\": 7}", "its field \"text\" is a number, not text");
  refused(std::string(100, '['), "nested deeper than 64");
  refused("{\"text\": \"\xff\"}", "it is no JSON");
}

TEST_F(Tokenizing, IsTheSameWithAnyNumberOfThreadsAndAfterAnyStop) {
  const std::vector<std::string> inputs = {file("1.jsonl", json_lines(1, 6000)),
                                           file("2.jsonl", json_lines(2, 0)),
                                           file("3.jsonl", json_lines(3, 6000))};
  gzFile packed = gzopen(path("4.jsonl.gz").c_str(), "wb");
  const std::string more = json_lines(4, 6000);
  gzwrite(packed, more.data(), static_cast<unsigned>(more.size()));
  gzclose(packed);
  auto given = options("one", inputs);
  given.inputs.push_back(path("4.jsonl.gz"));
  const TokenizeSummary expected = run(given);
  EXPECT_EQ(expected.documents, 18000u);
  for (const int threads : {2, 5}) {
    given.threads = threads;
    given.output = path(cat("threads", threads));
    EXPECT_EQ(run(given), expected);
    EXPECT_EQ(bytes_of(cat("threads", threads)), bytes_of("one"));
  }
  // Stopped by request, and by errors that leave what was not noted yet behind.
  given.output = path("stopped");
  given.note_seconds = 0;
  int stops = 0;
  for (std::uint64_t attempt = 0;; ++attempt) {
    std::uint64_t left = random_bits(7, 7, attempt) % 3;
    const auto fail = [&](auto, auto) {
      if (attempt % 2 == 1 && left-- == 0) throw UserError("the power is gone");
    };
    try {
      const auto sum = tokenize(given, *tokenizer_, fail, [&] { return attempt % 2 == 0 && left-- == 0; });
      if (sum) {
        EXPECT_EQ(*sum, expected);
        break;
      }
    } catch (const UserError& error) {
      ASSERT_STREQ(error.what(), "the power is gone");
    }
    ++stops;
    ASSERT_LT(attempt, 100u);
  }
  EXPECT_GT(stops, 3);
  EXPECT_EQ(bytes_of("stopped"), bytes_of("one"));
  EXPECT_FALSE(fs::exists(note_path(given.output)));
}

TEST_F(Tokenizing, GoesOnOnlyWithTheSameOptionsAndOverwritesNothing) {
  auto given = options("pair", {file("a.jsonl", json_lines(1, 100))});
  ASSERT_FALSE(tokenize(
      given, *tokenizer_, [](auto, auto) {}, [] { return true; }));
  given.end_of_document = 0;
  EXPECT_THAT([&] { run(given); }, ThrowsMessage<UserError>(HasSubstr("was begun with")));
  given.end_of_document.reset();
  run(given);
  EXPECT_THAT([&] { run(given); }, ThrowsMessage<UserError>(HasSubstr("is there already")));
  given.inputs = {path("none.jsonl")};
  EXPECT_THAT([&] { run(given); }, ThrowsMessage<UserError>(HasSubstr("No such file")));
}

TEST(TokenizeNotes, AreReadAsTheyAreWritten) {
  TokenizeNote note{.options = "a", .input = 3, .place = {5, 6}, .mark = {7, 8}, .is_complete = true};
  note.summary = {.records = 9,
                  .documents = 7,
                  .tokens = 8,
                  .counted_tokens = 1,
                  .text_bytes = 2,
                  .empty = 3,
                  .broken = 4};
  note.summary.lengths.add(100);
  EXPECT_EQ(parse_note(to_text(note), "x"), note);
  EXPECT_THROW(parse_note("{}", "x"), UserError);
  EXPECT_THROW(parse_note("[", "x"), UserError);
  EXPECT_THAT(note.summary.lengths.to_text(), HasSubstr("64 to 127          1  ########"));
}

}  // namespace
}  // namespace tessera::data
