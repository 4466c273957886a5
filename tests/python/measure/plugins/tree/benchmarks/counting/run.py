"""Writes down how it was called, and a CSV file as dpBento's plug-ins do."""

import argparse
import csv
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
sys.path.append(ROOT)

from benchmarks.packages.words import GREETING  # noqa: E402 (as its models do)

parser = argparse.ArgumentParser()
parser.add_argument("--benchmark_items")
parser.add_argument("--limit", type=int)
parser.add_argument("--limit_description")
parser.add_argument("--weights")
parser.add_argument("--aloud")
parser.add_argument("--metrics", type=json.loads)
args = parser.parse_args()

with open(os.path.join(HERE, "calls.jsonl"), "a") as calls:
    calls.write(json.dumps(sys.argv[1:]) + "\n")

folder = os.path.join(ROOT, "output", "counting")
os.makedirs(folder, exist_ok=True)
path = os.path.join(folder, "results.csv")
is_new = not os.path.exists(path)
with open(path, "a", newline="") as file:
    writer = csv.writer(file)
    if is_new:
        writer.writerow(["type", "limit", "latency (ms)", "count rate (1/s)"])
    for item in args.benchmark_items.split(","):
        sign = 1 if item == "up" else 2
        writer.writerow([f"{item}wards", args.limit, args.limit / 4 * sign, args.limit * 3])
print(GREETING)
