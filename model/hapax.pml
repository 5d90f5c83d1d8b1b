/* SPDX-License-Identifier: MIT */
/*
 * The life of one operation, and all that can happen around it: two gateways on one ledger, a tool
 * that counts its effects, a client that gives up, cancels and repeats, people, time and faults.
 *
 * What is modelled, what is left out and why is told in README.md. A world (worlds.txt) is a set of
 * limits, given as -D options: how many calls, crashes, errors there may be. Within them every
 * interleaving is walked.
 *
 * It is written from the contract, not from the C sources: `model/run` compares every decision
 * taken here with the table that the core prints of itself (tests/unit/op_matrix.snapshot).
 */
#include "words.pml" /* written by model/run from src/core/op.def */
#include "limits.pml"
#include "state.pml"
#include "promises.pml"
#include "core.pml"
#include "store.pml"
#include "gateway.pml"
#include "world.pml"
