//! End to end: the real binary, real processes, and what must hold when either is killed. Each test has a daemon of its
//! own in a directory of its own; nothing waits for a time, everything for a condition.

mod access;
mod canary;
mod cgroups;
mod cluster;
mod crash;
mod damage;
mod dev;
mod drain;
mod follow;
mod heal;
mod hello;
mod input;
mod jobs;
mod place;
mod plan;
mod scale;
mod support;
mod told;
mod tour;
mod update;
mod volumes;
mod words;
