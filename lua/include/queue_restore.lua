-- Brings parked tickets of the session back to their places, at once: the walk
-- that follows has to see them. Those of older epochs are void.
local function queue_restore(sem, view, account)
    while account.chunks > 0 and view.steps > 0 do
        local members = queue_unlist(sem, view, sem.session, account)
        local scores = #members > 0 and queue_scores(sem, members) or {}
        local back, current = {}, sem.session .. ' ' .. account.epoch .. ' '
        for i, member in ipairs(members) do
            local parked = scores[i] and scores[i] > PARKED / 2
            if parked and string.sub(member, 1, #current) == current then
                back[#back + 1] = string.format('%.0f', scores[i] - PARKED)
                back[#back + 1] = member
                sem.scores[member] = scores[i] - PARKED
                account_park(sem, account, -1)
            elseif parked then
                sem.removed[#sem.removed + 1] = member
            end
        end
        if #back > 0 then redis.call('ZADD', sem.queue, unpack(back)) end
    end
    if account.chunks > 0 then
        view.more = true
    else
        -- those that were not found went with a queue that was lost
        account_park(sem, account, -account.parked)
    end
end
