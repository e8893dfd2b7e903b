// Lists all events, waits for Enter, and approves them. Repeats until the end of standard input.
//
//     mcs -r:Newtonsoft.Json.dll QueryAndApprove.cs && mono QueryAndApprove.exe [API-VERSION]
//
// (Debian: packages mono-mcs, mono-runtime, libnewtonsoft-json5.0-cil, and -lib:/usr/lib/cli/Newtonsoft.Json-5.0.)
//
// Based on the published C# sample, which neither compiles nor runs. Changes:
//
// - Added the missing `using` directives.
// - Replaced `client.GetDocument()`, which does not exist, with `GetScheduledEvents()`.
// - Renamed the variable `event`, which is a keyword, to `scheduledEvent`.
// - Added `Metadata: true` to approvals, which every version after 2017-03-01 requires.
// - The loop ends at the end of standard input.
// - The screen is cleared only if there is a terminal.
// - Prints each event at the place for custom logic.
// - Accepts the API version as an argument and another endpoint in FOREWARN_METADATA.

using System;
using System.Collections.Generic;
using System.Net;
using Newtonsoft.Json;

public class ScheduledEventsClient
{
    private readonly string scheduledEventsEndpoint;
    private readonly string defaultAddress = "http://169.254.169.254";

    public ScheduledEventsClient(string apiVersion)
    {
        string address = Environment.GetEnvironmentVariable("FOREWARN_METADATA") ?? defaultAddress;
        scheduledEventsEndpoint = string.Format("{0}/metadata/scheduledevents?api-version={1}", address, apiVersion);
    }

    public string GetScheduledEvents()
    {
        using (var webClient = new WebClient())
        {
            webClient.Headers.Add("Metadata", "true");
            return webClient.DownloadString(new Uri(scheduledEventsEndpoint));
        }
    }

    public void ApproveScheduledEvents(string jsonPost)
    {
        using (var webClient = new WebClient())
        {
            webClient.Headers.Add("Metadata", "true");
            webClient.Headers.Add("Content-Type", "application/json");
            webClient.UploadString(scheduledEventsEndpoint, jsonPost);
        }
    }
}

public class ScheduledEventsDocument
{
    public string DocumentIncarnation;
    public List<CloudControlEvent> Events { get; set; }
}

public class CloudControlEvent
{
    public string EventId { get; set; }
    public string EventStatus { get; set; }
    public string EventType { get; set; }
    public string ResourceType { get; set; }
    public List<string> Resources { get; set; }
    public DateTime? NotBefore { get; set; }
}

public class ScheduledEventsApproval
{
    public string DocumentIncarnation;
    public List<StartRequest> StartRequests = new List<StartRequest>();
}

public class StartRequest
{
    [JsonProperty("EventId")]
    private string eventId;

    public StartRequest(string eventId)
    {
        this.eventId = eventId;
    }
}

public class Program
{
    static ScheduledEventsClient client;

    static void Main(string[] args)
    {
        client = new ScheduledEventsClient(args.Length > 0 ? args[0] : "2017-03-01");

        while (true)
        {
            string json = client.GetScheduledEvents();
            var document = JsonConvert.DeserializeObject<ScheduledEventsDocument>(json);

            HandleEvents(document.Events);

            Console.WriteLine("Press Enter to approve these events");
            if (Console.ReadLine() == null)
            {
                return;
            }

            var approval = new ScheduledEventsApproval() { DocumentIncarnation = document.DocumentIncarnation };

            foreach (CloudControlEvent scheduledEvent in document.Events)
            {
                approval.StartRequests.Add(new StartRequest(scheduledEvent.EventId));
            }

            if (approval.StartRequests.Count > 0)
            {
                string approvalJson = JsonConvert.SerializeObject(approval);

                Console.WriteLine($"Approving events with json: {approvalJson}");
                client.ApproveScheduledEvents(approvalJson);
            }

            Console.WriteLine("Complete. Press Enter to repeat");
            if (Console.ReadLine() == null)
            {
                return;
            }
            if (!Console.IsOutputRedirected)
            {
                Console.Clear();
            }
        }
    }

    private static void HandleEvents(List<CloudControlEvent> events)
    {
        // Drain the machine here.
        foreach (CloudControlEvent scheduledEvent in events)
        {
            string resources = string.Join(", ", scheduledEvent.Resources);
            Console.WriteLine(
                $"{scheduledEvent.EventStatus}: {scheduledEvent.EventType} of {resources}, not before {scheduledEvent.NotBefore:R}");
        }
    }
}
