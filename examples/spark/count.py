"""Counts words and fits a line over the executors. The session has its settings from the job."""

import os

from pyspark.ml.feature import VectorAssembler
from pyspark.ml.regression import LinearRegression
from pyspark.sql import SparkSession
from words import words_of

TEXT = ["the driver is a task", "the executors are tasks", "the end of the driver is the end of the job"]

spark = SparkSession.builder.appName("count").getOrCreate()
context = spark.sparkContext


def counted(lines):
    """Each word with a 1, and where that was."""
    yield from ((word, 1) for line in lines for word in words_of(line))
    yield f"{os.environ['BERTH_ROLE']}-{os.environ['BERTH_INDEX']}", 0


pairs = context.parallelize(TEXT * 1000, 4).mapPartitions(counted).reduceByKey(lambda left, right: left + right).collect()
print("executors:", *sorted(word for word, count in pairs if count == 0))
print("words:", *(f"{word} {count}" for word, count in sorted(pairs, key=lambda pair: (-pair[1], pair[0]))[:3]))

points = spark.range(20_000).selectExpr("id / 20000.0 AS x", "3 * id / 20000.0 + 1 AS y")
table = VectorAssembler(inputCols=["x"], outputCol="features").transform(points)
line = LinearRegression(labelCol="y").fit(table)
print(f"slope {line.coefficients[0]:.3f} offset {line.intercept:.3f}")
spark.stop()
