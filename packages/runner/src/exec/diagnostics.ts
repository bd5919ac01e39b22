/** What the runner itself has to say about the end of an exec. */
import type { Diagnostic } from '@breakfall/faults'
import type { Loss } from './event-log.ts'

export const spawnRefused = (raw: string): Diagnostic => ({
  id: 'spawn_refused',
  rank: 'cause',
  message: `no process could be made: ${raw}`,
  advice: 'look at the limits of the machine: processes, open files, memory',
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

export const outputLost = ({ stream, after, bytes }: Loss): Diagnostic => ({
  id: 'output_lost',
  rank: 'consequence',
  message: `the runner was killed with output in its hands: ${bytes === undefined ? `up to 65536 bytes of ${stream} after byte ${after} may be lost` : `${bytes} bytes of ${stream} after byte ${after} are lost`}`,
  advice: 'run it again if that part of the output matters',
  retry: 'never',
  evidence: [`${stream} ${after} ${bytes ?? '?'}`],
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
