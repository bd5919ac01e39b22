/** What the rows of the table of calls share. */
import { EPOCH_HEADER, RUNNER_HEADER } from '@breakfall/wire'

export const BOX = '/v1/{prefix}/boxes/{id}'

export const headers = {
  [RUNNER_HEADER]: 'the id of the intended runner; any other runner answers 421 and does nothing',
  [EPOCH_HEADER]: "the caller's epoch; a lower one than the box has seen is refused with 409",
}

export const everywhere = ['unauthorized', 'forbidden', 'runner_identity_mismatch', 'not_found'] as const
export const onBox = [...everywhere, 'box_not_found', 'invalid_request'] as const
export const mutating = [...onBox, 'lease_lost', 'shutting_down', 'journal_full'] as const
