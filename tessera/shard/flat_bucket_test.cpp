#include "tessera/shard/flat_bucket.hpp"

#include <gtest/gtest.h>

#include "tessera/base/error.hpp"

namespace tessera::shard {
namespace {

using program::Dtype;
using program::Init;
using tensor::Tensor;

// 3 x 50 drawn, 7 ones, 11 x 10 drawn, 5 zeros, and padding to a multiple of eight slices.
program::Bucket uneven_bucket(Dtype compute = Dtype::fp32) {
  program::Bucket bucket{.name = "b",
                         .parameters = {{"a", {3, 50}, 0, {Init::Kind::normal, 0.5}},
                                        {"n", {7}, 0, {Init::Kind::ones, 0}},
                                        {"c", {11, 10}, 0, {Init::Kind::normal, 2.0}},
                                        {"z", {5}, 0, {Init::Kind::zeros, 0}}}};
  bucket.compute = compute;
  program::lay_out(bucket);
  bucket.elements = 64 * 8;
  return bucket;
}

Tensor ones(const tensor::Shape& shape) { return tensor::empty(shape, at::kFloat).fill_(1); }

TEST(FlatBucket, DrawsTheSameValuesInEverySlicing) {
  const auto table = uneven_bucket();
  const FlatBucket whole(table, 3);
  EXPECT_EQ(parameter_in(whole.shard(), table.parameters[1]).sum().item<double>(), 7);
  EXPECT_NE(whole.shard()[0].item<double>(), 0);
  EXPECT_EQ(whole.shard().narrow(0, 272, 240).abs().max().item<double>(), 0) << "zeros and padding";
  for (const std::int64_t count : {2, 4, 8}) {
    std::vector<Tensor> slices;
    for (std::int64_t position = 0; position < count; ++position) {
      slices.push_back(FlatBucket(table, 3, {position, count}).shard());
      EXPECT_EQ(slices.back().numel(), 512 / count);
    }
    EXPECT_TRUE(tensor::bit_equal(tensor::concatenate(slices, 0), whole.shard())) << count << " slices";
  }
}

// Of [6, 50] cut along rows and [4, 30] cut along columns, the parts of three ranks, in any slicing, are
// those of the whole.
TEST(FlatBucket, DrawsTheSameValuesInEveryCut) {
  const Init drawn{Init::Kind::normal, 0.5};
  const auto bucket_of = [&](const tensor::Shape& rows, const tensor::Shape& columns, std::int64_t parts) {
    program::Bucket bucket{
        .name = "b",
        .parameters = {{.name = "rows", .shape = rows, .init = drawn, .cuts = {{0, parts}}},
                       {.name = "columns", .shape = columns, .init = drawn, .cuts = {{1, parts}}}}};
    program::lay_out(bucket, 2);
    return bucket;
  };
  const auto whole_table = bucket_of({6, 50}, {4, 30}, 1), table = bucket_of({2, 50}, {4, 10}, 3);
  const FlatBucket whole(whole_table, 3);
  for (std::int64_t part = 0; part < 3; ++part) {
    std::vector<Tensor> slices;
    for (const std::int64_t slice : {0, 1})
      slices.push_back(FlatBucket(table, 3, {slice, 2}, at::kCPU, {part, 3}).shard());
    const Tensor flat = tensor::concatenate(slices, 0);
    for (const std::size_t i : {0, 1}) {
      const auto& parameter = table.parameters[i];
      EXPECT_EQ(parameter.whole_shape(), whole_table.parameters[i].shape);
      const Tensor expected =
          parameter_in(whole.shard(), whole_table.parameters[i])
              .narrow(parameter.cuts[0].dim, part * parameter.shape[i], parameter.shape[i]);
      EXPECT_TRUE(tensor::bit_equal(parameter_in(flat, parameter), expected))
          << parameter.name << ", part " << part;
    }
  }
}

TEST(FlatBucket, TakesOverOnlyItsSliceOfGivenValues) {
  const auto table = uneven_bucket();
  FlatBucket last(table, 3, {1, 2});  // elements 256 to 512: the end of c, all of z
  const Tensor before = last.shard().clone();
  last.fill(table.parameters[0], ones({3, 50}));
  EXPECT_TRUE(tensor::bit_equal(last.shard(), before));
  Tensor c = ones({11, 10});
  c.view({-1}).narrow(0, 99, 11).fill_(9);  // of the bucket's elements from 256 on
  last.fill(table.parameters[2], c);
  EXPECT_EQ(last.shard().narrow(0, 0, 11).sum().item<double>(), 99);
  EXPECT_EQ(last.shard().narrow(0, 11, 245).abs().max().item<double>(), 0);
}

TEST(FlatBucket, FullHasItsSliceInPlaceAndHoldsMemoryOnlyUntilItEnds) {
  const auto table = uneven_bucket(Dtype::bf16);
  FlatBucket bucket(table, 3, {1, 2});
  Weight& c = bucket.weight("c");
  EXPECT_FALSE(c.value().defined());
  bucket.begin_full();
  const Tensor full = bucket.full();
  EXPECT_EQ(full.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(tensor::bit_equal(bucket.slice_of(full), bucket.shard().to(at::kBFloat16)));
  EXPECT_EQ(c.value().sizes(), (tensor::Shape{11, 10}));
  EXPECT_EQ(c.value().const_data_ptr(), full.narrow(0, 157, 1).const_data_ptr());
  EXPECT_THROW(bucket.begin_full(), Bug) << "twice";
  bucket.end_full();
  EXPECT_FALSE(c.value().defined());
  EXPECT_EQ(full.storage().use_count(), 1U) << "only this test holds it";
}

TEST(FlatBucket, AResidentFullFollowsItsShardOutOfMemoryAndBack) {
  auto table = uneven_bucket();
  table.full_resident = true;
  FlatBucket bucket(table, 3);
  Weight& a = bucket.weight("a");
  const Tensor copy = bucket.shard().clone();
  bucket.set_shard(Tensor());
  EXPECT_FALSE(a.value().defined());
  bucket.set_shard(copy);
  EXPECT_EQ(a.value().const_data_ptr(), copy.const_data_ptr());
  EXPECT_THROW(FlatBucket(table, 3, {0, 2}), Bug) << "whole and cut at once";
}

TEST(FlatBucket, AGradientIsZeroWhereNothingWasAddedAndItsMemoryIsHandedOn) {
  const auto table = uneven_bucket();
  FlatBucket bucket(table, 3);
  Weight& a = bucket.weight("a");
  EXPECT_FALSE(bucket.weight_gradient().defined()) << "nothing is allocated before it is needed";
  bucket.begin_weight_gradient();
  bucket.weight_gradient().fill_(1e30);
  a.add(ones({3, 50}), tensor::number(2));
  a.add(ones({3, 50}));
  bucket.begin_weight_gradient();  // goes on with what is there
  bucket.close_weight_gradient();
  EXPECT_EQ(bucket.weight_gradient().sum().item<double>(), 3 * 150);
  const void* memory = bucket.weight_gradient().const_data_ptr();
  bucket.add_to_shard_gradient(bucket.weight_gradient());
  bucket.end_weight_gradient();
  EXPECT_EQ(bucket.shard_gradient().const_data_ptr(), memory) << "no copy";
  EXPECT_FALSE(a.gradient().defined());

  bucket.begin_weight_gradient();
  bucket.weight_gradient().fill_(1e30);
  a.add(ones({3, 50}), tensor::number(0.5));
  bucket.close_weight_gradient();
  bucket.add_to_shard_gradient(bucket.weight_gradient());
  EXPECT_EQ(bucket.shard_gradient().sum().item<double>(), 3.5 * 150) << "parts add up";
  bucket.end_shard_gradient(true);
  EXPECT_FALSE(bucket.shard_gradient().defined());
  EXPECT_EQ(bucket.kept_gradient().sum().item<double>(), 3.5 * 150);
}

TEST(FlatBucket, WhatATakenGradientHeldIsNotCountedAgain) {
  const auto table = uneven_bucket();
  FlatBucket bucket(table, 3);
  Weight& a = bucket.weight("a");
  bucket.begin_weight_gradient();
  a.add(ones({3, 50}));
  bucket.restart_weight_gradient();
  bucket.close_weight_gradient();
  EXPECT_EQ(bucket.weight_gradient().abs().max().item<double>(), 0);
}

TEST(FlatBucket, SidesOfARunMustLieSideBySide) {
  const auto table = uneven_bucket();
  FlatBucket bucket(table, 3);
  EXPECT_THROW(bucket.weight(std::vector<std::string>{"a", "c"}), Bug);
  EXPECT_THROW(bucket.weight("q"), Bug);
}

}  // namespace
}  // namespace tessera::shard
