/**
 * Descriptors that the parent process left open and that every child would inherit: a pipe, a socket, a secret. Node marks
 * its own and the low ones as close-on-exec; this finds the rest. They are not closed, because other code in this process
 * may use them.
 */
import type { ChildProcess } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'

type Stdio = 'pipe' | 'ignore' | 'inherit' | number

/** Starts a child that gets /dev/null in their place. */
export function spawnCovered(
  inherited: readonly number[],
  first: readonly Stdio[],
  start: (stdio: Stdio[]) => ChildProcess,
): ChildProcess {
  if (inherited.length === 0) return start([...first])
  const nothing = openSync('/dev/null', 'r+')
  try {
    const stdio: (Stdio | undefined)[] = [...first]
    for (const fd of inherited) stdio[fd] ??= nothing
    return start(Array.from(stdio, (entry) => entry ?? 'ignore'))
  } finally {
    closeSync(nothing)
  }
}
