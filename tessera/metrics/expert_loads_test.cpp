#include "tessera/metrics/expert_loads.hpp"

#include <gmock/gmock.h>

#include "tessera/base/error.hpp"
#include "tessera/base/testing/test_folder.hpp"

namespace tessera::metrics {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string line_of(std::int64_t step, const std::vector<ExpertLoad>& loads) {
  StepFacts facts;
  facts.step = step;
  facts.expert_loads = loads;
  return json_object(record_of(facts)) + "\n";
}

class ExpertLoads : public testing::Test {
 protected:
  std::vector<StepLoads> read(const std::string& text) const {
    std::vector<StepLoads> out;
    read_expert_loads(folder_.write("metrics.jsonl", text),
                      [&](const StepLoads& each) { out.push_back(each); });
    return out;
  }
  std::string complaint(const std::string& text) const {
    try {
      read(text);
    } catch (const UserError& error) {
      return error.what();
    }
    return "none";
  }

  const TestFolder folder_;
  const std::vector<ExpertLoad> loads_ = {{0, {3, 5}, 1}, {2, {8, 0}, 0}};
};

TEST_F(ExpertLoads, AreReadAsTheyWereWritten) {
  EXPECT_THAT(read(line_of(1, loads_) + line_of(2, loads_)),
              ElementsAre(StepLoads{1, loads_}, StepLoads{2, loads_}));
}

TEST_F(ExpertLoads, LinesWithoutThemAreLeftOut) {
  const std::string text =
      cat(line_of(1, loads_), "{\"step\": 4, \"missing_from\": 2}\n\n", line_of(5, {}), line_of(6, loads_));
  EXPECT_THAT(read(text), ElementsAre(StepLoads{1, loads_}, StepLoads{6, loads_}));
}

TEST_F(ExpertLoads, ALastLineThatIsBeingWrittenIsLeftOut) {
  const std::string whole = line_of(2, loads_);
  EXPECT_THAT(read(line_of(1, loads_) + whole.substr(0, whole.size() / 2)),
              ElementsAre(StepLoads{1, loads_}));
  EXPECT_EQ(read(line_of(1, loads_) + whole.substr(0, whole.size() - 1)).size(), 2u)
      << "it lacks its end alone";
}

TEST_F(ExpertLoads, AFileThatIsNoJsonAtAllIsBroken) {
  EXPECT_THAT(complaint("[training]"), HasSubstr("metrics.jsonl', line 1: is broken: it is no JSON object"));
}

TEST_F(ExpertLoads, AFileWithoutThemIsToldFromOneWithoutSteps) {
  EXPECT_THAT(complaint(""), HasSubstr("metrics.jsonl' is empty: no step has ended yet"));
  EXPECT_THAT(complaint("\n \n"), HasSubstr("is empty"));
  EXPECT_THAT(complaint(line_of(1, {}) + line_of(2, {})),
              HasSubstr("metrics.jsonl': this run has no experts; no line has \"experts\""));
  EXPECT_THROW(read_expert_loads(folder_.path("none.jsonl"), [](const StepLoads&) {}), UserError);
}

TEST_F(ExpertLoads, WhatIsBrokenIsNamedWithItsLine) {
  const auto experts = [](const char* text) { return cat("{\"step\": 2, \"experts\": ", text, "}\n"); };
  const std::pair<std::string, const char*> cases[] = {
      {"{\"step\": 2, \"exp\n", "is broken: it is no JSON object"},
      {"[1]\n", "is broken: it is no JSON object"},
      {"{\"loss\": 2}\n", "has no \"step\", a number from 1 on"},
      {"{\"step\": -3}\n", "has no \"step\", a number from 1 on"},
      {"{\"step\": 18446744073709551615}\n", "has no \"step\", a number from 1 on"},
      {cat(std::string(40, '['), std::string(40, ']'), "\n"), "is nested too deeply"},
      {experts("3"), "that are no list of layers"},
      {experts("[]"), "that are no list of layers"},
      {experts("[7]"), "a layer of \"experts\" that is no object"},
      {experts("[{\"tokens\": [1, 2]}]"), "without the number of their \"layer\""},
      {experts("[{\"layer\": 0, \"tokens\": []}]"), "without a list of \"tokens\""},
      {experts("[{\"layer\": 0, \"tokens\": [1, null]}]"), "without a list of \"tokens\""},
      {experts("[{\"layer\": 0, \"tokens\": [1, -1]}]"), "without a list of \"tokens\""},
      {experts("[{\"layer\": 0, \"tokens\": [1, 1e300]}]"), "without a list of \"tokens\""},
      {experts("[{\"layer\": 0, \"tokens\": [1, 2], \"dropped\": \"x\"}]"), "whose \"dropped\" is no number"},
      {experts("[{\"layer\": 0, \"tokens\": [1, 2]}]"), "has other layers or experts than the lines before"},
      {line_of(1, loads_), "is of step 1, but stands after step 1"},
  };
  for (const auto& [line, why] : cases)
    EXPECT_THAT(complaint(line_of(1, loads_) + line + line_of(9, loads_)),
                AllOf(HasSubstr("metrics.jsonl', line 2: "), HasSubstr(why)))
        << line;
}

}  // namespace
}  // namespace tessera::metrics
