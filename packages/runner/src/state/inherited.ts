/**
 * Descriptors that the parent process left open and that every child would inherit: a pipe, a socket, a secret. Node marks
 * its own and the low ones as close-on-exec; this finds the rest. They are not closed, because other code in this process
 * may use them.
 */
import type { ChildProcess } from 'node:child_process'
import { closeSync, openSync, readdirSync, readFileSync } from 'node:fs'

const O_CLOEXEC = 0o2_000_000

export function inheritedDescriptors(): readonly number[] {
  return readdirSync('/proc/self/fdinfo')
    .map(Number)
    .filter((fd) => fd > 2 && isPassedOn(fd))
}

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

// ---- details ----

function isPassedOn(fd: number): boolean {
  try {
    const flags = /^flags:\s+([0-7]+)/m.exec(readFileSync(`/proc/self/fdinfo/${fd}`, 'latin1'))?.[1]
    return flags !== undefined && (Number.parseInt(flags, 8) & O_CLOEXEC) === 0
  } catch {
    return false // the descriptor that listed the folder
  }
}
