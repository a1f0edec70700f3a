#include "tessera/program/ir/footprint.hpp"

#include <gtest/gtest.h>

namespace tessera::program {
namespace {

using Act = AllocationEvent::Act;

// x -> a = f(x), kept -> b = a W; y = x + b. f's backward needs a, the product's needs a too.
std::vector<Piece> two_pieces() {
  Piece first{.name = "f"}, second{.name = "product"};
  first.forward_events = {
      {Act::make, "scratch", 30}, {Act::drop, "scratch"}, {Act::make, "a", 10}, {Act::tape, "a"}};
  first.backward_events = {{Act::make, "part", 4},
                           {Act::drop, "d.a"},
                           {Act::untape, "a"},
                           {Act::sum, "d.x", 4, "d.y"},
                           {Act::drop, "part"}};
  second.forward_events = {
      {Act::make, "b", 5}, {Act::tape, "a"}, {Act::make, "y", 4}, {Act::drop, "b"}, {Act::drop, "a"}};
  second.backward_events = {{Act::make, "d.a", 10}, {Act::defer, "d.y", 4, "a", 10, 7}, {Act::untape, "a"}};
  return {first, second};
}

TEST(Footprint, OfTwoPiecesIsAsComputedByHand) {
  const Footprint f = footprint(two_pieces());
  EXPECT_EQ(f.tape_bytes, 10);    // a
  EXPECT_EQ(f.forward_peak, 30);  // the scratch, before anything else is there
  EXPECT_EQ(f.bare_peak, 30);
  EXPECT_EQ(f.backward_peak, 10 + 7);        // d.a and the product's scratch, a still there
  EXPECT_EQ(f.work_bytes, 4 + 10);           // d.y, which came from outside, and a
  EXPECT_EQ(f.backward_input_peak, 10 + 4);  // nothing is multiplied; d.a and part
  EXPECT_EQ(f.backward_weight_peak, 7);
}

TEST(Footprint, OfAPieceAloneTakesWhatItDoesNotMakeFromOutside) {
  const auto pieces = two_pieces();
  const Footprint second = footprint(std::span(pieces).subspan(1));
  EXPECT_EQ(second.tape_bytes, 0);  // a is a value now
  EXPECT_EQ(second.forward_peak, 5 + 4);
  EXPECT_EQ(second.backward_peak, 10 + 7);
  const Footprint first = footprint(std::span(pieces).first(1));
  EXPECT_EQ(first.tape_bytes, 0);  // a is written as a value, and counted as one
  EXPECT_EQ(first.backward_peak,
            10 + 4 + 4);  // it may have ended as a value; the gradients don't add up in place
}

TEST(Footprint, GradientsAddUpInPlaceUnlessWeightWorkHoldsOne) {
  auto pieces = two_pieces();
  pieces[1].backward_events.insert(pieces[1].backward_events.begin(), {Act::make, "d.y", 4});
  // d.y is made here now: the whole backward sums into it, the input half keeps it for the product.
  EXPECT_EQ(footprint(pieces).backward_peak, 4 + 10 + 7);
  pieces[0].backward_events.insert(pieces[0].backward_events.begin() + 3, {Act::make, "late", 20});
  EXPECT_EQ(footprint(pieces).backward_peak, 4 + 10 + 7);  // late comes when a and d.a are gone
  EXPECT_EQ(footprint(pieces).backward_input_peak,
            4 + 4 + 20 + 4);  // a stays for the product, and d.x is new
}

TEST(Footprint, OfARecomputedSegmentKeepsAnOutputOfItsOwn) {
  const auto pieces = two_pieces();
  EXPECT_EQ(footprint(std::span(pieces).first(1), true).tape_bytes, 10);  // a, made again for the tape alone
}

TEST(Footprint, OfSumsHoldsAllThatAnOpMakesBesideAllThatItEnds) {
  Tables tables;
  tables.units = {{"u", {{.name = "p", .tape_bytes = 100, .work_bytes = 10, .scratch_bytes = 7}}}};
  tables.values = {{"in", 1000}, {"out", 2000}};
  const Segment segment{.num_pieces = 1, .reads = {0}, .writes = {1}};
  EXPECT_EQ(footprint(segment, tables), (Footprint{.tape_bytes = 100,
                                                   .work_bytes = 10,
                                                   .forward_peak = 2000 + 100 + 7,
                                                   .bare_peak = 2000 + 7,
                                                   .backward_peak = 1000,
                                                   .backward_input_peak = 1010}));
}

}  // namespace
}  // namespace tessera::program
