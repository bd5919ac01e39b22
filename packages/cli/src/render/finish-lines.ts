/** How a finished answer ended, if not as an answer should. Pure. */
import { isCutOff } from '@breakfall/wire'
import { cmd } from '../process/command-name.ts'

type Finish = { readonly finish?: string | undefined; readonly unproven?: boolean | undefined }

export const CUT_OFF = "stopped at the model's token limit"

export function finishLines(turn: Finish, sessionId: string): readonly string[] {
  const { finish, unproven = false } = turn
  if (isCutOff(turn))
    return [
      'the answer is not complete: the model reached the most tokens that it may answer with',
      `to have it go on: ${cmd('run')} --session ${sessionId} "go on"`,
    ]
  return [
    ...(finish === undefined ? [] : [`the model stopped: ${finish}`]),
    ...(unproven ? ['the server sent no proof that the answer is complete'] : []),
  ]
}
