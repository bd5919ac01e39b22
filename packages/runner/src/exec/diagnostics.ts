/** What the runner itself has to say about the end of an exec. */
import type { Diagnostic } from '@breakfall/faults'

export const spawnRefused = (raw: string): Diagnostic => ({
  id: 'spawn_refused',
  rank: 'cause',
  message: `no process could be made: ${raw}`,
  advice: 'look at the limits of the machine: processes, open files, memory',
  retry: 'later',
  evidence: [raw],
  count: 1,
})

export const noSpace = (raw: string): Diagnostic => ({
  id: 'no_space',
  rank: 'cause',
  message: `there was no room to write down what has to be kept before a command may run: ${raw}`,
  advice: 'free some space in the state folder of the runner',
  retry: 'later',
  evidence: [raw],
  count: 1,
})

export const outputNotKept = (raw: string): Diagnostic => ({
  id: 'output_not_kept',
  rank: 'cause',
  message: `the output could not be kept: ${raw}`,
  advice: 'free some space in the state folder of the runner',
  retry: 'later',
  evidence: [raw],
  count: 1,
})

export const outputLost = (where: string): Diagnostic => ({
  id: 'output_lost',
  rank: 'consequence',
  message: `the process that copies output was killed: up to 65536 bytes may be lost, after ${where}`,
  advice: 'run it again if that part of the output matters',
  retry: 'never',
  evidence: [where],
  count: 1,
})

export const killIncomplete = (reason: string): Diagnostic => ({
  id: 'kill_incomplete',
  rank: 'consequence',
  message: `${reason}: the keeper did not report an end, so it was ended too`,
  advice: 'look at the survivors',
  retry: 'never',
  evidence: [],
  count: 1,
})

export const workspaceChanged: Diagnostic = {
  id: 'workspace_changed',
  rank: 'cause',
  message: 'the workspace became another folder while the command was being started, so it was not started',
  advice: 'make a box on the folder that is there now',
  retry: 'later',
  evidence: [],
  count: 1,
}
