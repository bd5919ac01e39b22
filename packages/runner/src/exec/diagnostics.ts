/** The runner's own diagnostics about the end of an exec. */
import type { Diagnostic } from '@breakfall/faults'

export const spawnRefused = (raw: string): Diagnostic => ({
  id: 'spawn_refused',
  rank: 'cause',
  message: `cannot start a process: ${raw}`,
  advice: 'check the limits of the machine: processes, open files, memory',
  retry: 'later',
  evidence: [raw],
  count: 1,
})

export const noSpace = (raw: string): Diagnostic => ({
  id: 'no_space',
  rank: 'cause',
  message: `no disk space for the files that a command needs before it starts: ${raw}`,
  advice: "free disk space for the runner's state folder",
  retry: 'later',
  evidence: [raw],
  count: 1,
})

export const outputNotKept = (raw: string): Diagnostic => ({
  id: 'output_not_kept',
  rank: 'cause',
  message: `cannot store the output: ${raw}`,
  advice: "free disk space for the runner's state folder",
  retry: 'later',
  evidence: [raw],
  count: 1,
})

export const outputNotCopied = (raw: string): Diagnostic => ({
  id: 'output_not_kept',
  rank: 'cause',
  message: `cannot start the process that copies output: ${raw}`,
  advice: 'check the limits of the machine: processes, open files, memory',
  retry: 'later',
  evidence: [raw],
  count: 1,
})

export const outputLost = (where: string): Diagnostic => ({
  id: 'output_lost',
  rank: 'consequence',
  message: `the process that copies output was killed: up to 65536 bytes may be lost, after ${where}`,
  advice: 'run the command again if you need that part of the output',
  retry: 'never',
  evidence: [where],
  count: 1,
})

export const killIncomplete = (reason: string): Diagnostic => ({
  id: 'kill_incomplete',
  rank: 'consequence',
  message: `${reason}: the keeper did not report an end and was killed too`,
  advice: 'check the surviving processes',
  retry: 'never',
  evidence: [],
  count: 1,
})

export const workspaceChanged: Diagnostic = {
  id: 'workspace_changed',
  rank: 'cause',
  message: 'the workspace path led to another folder when the command was about to start, so it was not started',
  advice: 'create a new box for the folder that is there now',
  retry: 'later',
  evidence: [],
  count: 1,
}

export const networkLost: Diagnostic = {
  id: 'network_lost',
  rank: 'hint',
  message:
    "the process that holds the box's network was killed: later commands are in another network and cannot reach this one",
  advice: 'stop it and start it again',
  retry: 'never',
  evidence: [],
  count: 1,
}

/** `problem`: why they could not be mounted again. */
export const guardLost = (names: readonly string[], problem: string | undefined): Diagnostic => ({
  id: 'guard_lost',
  rank: 'hint',
  message: `${names.join(', ')} ${names.length === 1 ? 'was' : 'were'} replaced on the host while this command ran, which took the protection away; ${problem === undefined ? 'Breakfall protected it again at once' : `Breakfall could not protect it again (${problem})`}`,
  advice: `check ${names.join(', ')} for changes that you did not make`,
  retry: 'never',
  evidence: [...names],
  count: 1,
})

export const setAside = (names: readonly string[]): Diagnostic => ({
  id: 'set_aside',
  rank: 'hint',
  message: `git on the host would have run commands because of ${names.join(', ')}; Breakfall renamed ${names.length === 1 ? 'it' : 'them'}, with ".set-aside" at the end`,
  advice: 'delete what was set aside, or rename it back if you made it yourself',
  retry: 'never',
  evidence: [...names],
  count: names.length,
})

export const mayRun = (names: readonly string[]): Diagnostic => ({
  id: 'may_run',
  rank: 'hint',
  message: `${names.join(', ')} changed while this command ran: programs outside the box act on ${names.length === 1 ? 'it' : 'them'} by themselves`,
  advice: 'tell the user, who should look before using them',
  retry: 'never',
  evidence: [...names],
  count: names.length,
})
