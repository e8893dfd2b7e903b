# Lists all events and approves those that the user confirms.
#
#     ./QueryAndApprove.ps1 [API-VERSION]
#
# Based on the published PowerShell sample. The tests run the other samples but not this one, because they have no PowerShell. The only
# change:
#
# - Accepts the API version as an argument and another endpoint in FOREWARN_METADATA.
param([string]$apiVersion = "2017-03-01")

# Asks for the document
function GetScheduledEvents($uri)
{
    $scheduledEvents = Invoke-RestMethod -Headers @{"Metadata"="true"} -URI $uri -Method get
    $json = ConvertTo-Json $scheduledEvents
    Write-Host "Received: `n" $json
    return $scheduledEvents
}

# Approves one event
function ApproveScheduledEvent($eventId, $docIncarnation, $uri)
{
    $startRequests = [array]@{"EventId" = $eventId}
    $approval = @{"StartRequests" = $startRequests; "DocumentIncarnation" = $docIncarnation}
    $approvalString = ConvertTo-Json $approval

    Write-Host "Approving with: `n" $approvalString

    Invoke-RestMethod -Uri $uri -Headers @{"Metadata"="true"} -Method POST -Body $approvalString
}

function HandleScheduledEvents($scheduledEvents)
{
    # Here the machine hands over its work.
}

$address = if ($env:FOREWARN_METADATA) { $env:FOREWARN_METADATA } else { "http://169.254.169.254" }
$scheduledEventURI = '{0}/metadata/scheduledevents?api-version={1}' -f $address, $apiVersion

$scheduledEvents = GetScheduledEvents $scheduledEventURI

HandleScheduledEvents $scheduledEvents

foreach($event in $scheduledEvents.Events)
{
    Write-Host "Event: `n" $event
    $entry = Read-Host "`nApprove event? Y/N"
    if($entry -eq "Y" -or $entry -eq "y")
    {
        ApproveScheduledEvent $event.EventId $scheduledEvents.DocumentIncarnation $scheduledEventURI
    }
}
